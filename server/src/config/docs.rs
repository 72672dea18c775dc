//! The table of settings as a document, `docs/settings.md`.

use super::settings::{KEYS, OLD_SPELLINGS, Settings};
use super::value::Shape;

/// The whole of `docs/settings.md`. A test compares the file with it.
pub fn settings_markdown() -> String {
    let defaults = Settings::default();
    let mut text = String::from(HEAD);
    let mut section = "";
    for key in KEYS {
        if key.section != section {
            section = key.section;
            text.push_str(&format!(
                "\n## {section}\n\n| name | default | accepted | meaning |\n| --- | --- | --- | --- |\n"
            ));
        }
        let meaning = key.meaning.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
        let default = (key.toml)(&defaults);
        let default =
            if default == "\"\"" { "empty".to_owned() } else { format!("`{}`", default.trim_matches('"')) };
        text.push_str(&format!("| `{}` | {default} | {} | {meaning} |\n", key.name, accepted(&key.shape)));
    }
    text.push_str("\nOlder spellings that RocketMQ 4.x files have: ");
    let old: Vec<String> = OLD_SPELLINGS.iter().map(|(old, new)| format!("`{old}` for `{new}`")).collect();
    text.push_str(&old.join(", "));
    text.push_str(".\n");
    text
}

/// What a shape accepts, in a table's cell.
fn accepted(shape: &Shape) -> String {
    use super::value::ByteSize;
    match *shape {
        Shape::Name { len_max } => format!("1 to {len_max} of `A-Z a-z 0-9 _ - % \\|`"),
        Shape::Switch => "`true`, `false`".to_owned(),
        Shape::Count { min, max } if min == max => format!("{min}"),
        Shape::Count { min, max } => format!("{min} to {max}"),
        Shape::CountOrAuto { min, max } => format!("`auto`, {min} to {max}"),
        Shape::Bytes { min, max } => format!("{} to {}", ByteSize(min), ByteSize(max)),
        Shape::Time { unit, min, max } => format!("{min} to {max} {}", unit.word()),
        Shape::Choice(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Shape::Address => "IP address".to_owned(),
        Shape::AddressOrAuto => "`auto`, IP address".to_owned(),
        Shape::AddressList => "`host:port;host:port`".to_owned(),
        Shape::Directory => "directory".to_owned(),
        Shape::CoreList => "`auto`, list like `0,2-3`".to_owned(),
        Shape::PortOrOff => "`auto`, `off`, 0 to 65535".to_owned(),
    }
}

const HEAD: &str = "\
# Settings

Generated from the table in `server/src/config/settings.rs` by its test; don't edit by hand.

A settings file is TOML, or RocketMQ's `broker.conf`; both have the same names. What comes later wins: defaults, the
file (`-c`), flags, `--set name=value`. `ringmq serve --check` prints what is in force as a file that `-c` takes.

Sizes are plain numbers of bytes, or have `KiB`, `MiB`, `GiB`. Times are plain numbers in the unit shown, or have `us`,
`ms`, `s`, `m`, `h`. Names that only RocketMQ knows are accepted with a warning, except those whose being ignored would
break a promise or a role: these are refused, as are names that nobody knows.
";
