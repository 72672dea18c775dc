//! JSON bodies of control requests and their answers. Cold path: these allocate.
