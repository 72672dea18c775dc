//! What one core stores.
