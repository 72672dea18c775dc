//! A settings file: TOML, or RocketMQ's `broker.conf` (Java properties), to a list of names and texts.
//!
//! The two are told apart by whether the text parses as TOML. Owns both readers; never knows which names exist.

use super::error::ConfigError;
use super::{Entry, Origin};

/// Reads `text`, the contents of the file called `path` in messages.
pub fn parse(path: &str, text: &str) -> Result<Vec<Entry>, ConfigError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match toml::de::DeTable::parse(text) {
        Ok(table) => toml_entries(path, text, table.get_ref()),
        Err(error) if path.ends_with(".toml") => Err(ConfigError::File {
            path: path.to_owned(),
            problem: format!("is not valid TOML: {}", error.to_string().trim_end()),
        }),
        Err(_) => properties_entries(path, text),
    }
}

fn toml_entries(path: &str, text: &str, table: &toml::de::DeTable<'_>) -> Result<Vec<Entry>, ConfigError> {
    let mut entries = Vec::with_capacity(table.len());
    flatten(path, text, "", table, &mut entries)?;
    // TOML's tables are unordered: go by the file, so that the first problem reported is the first in the file.
    entries.sort_by_key(|entry| match entry.origin {
        Origin::File { line, .. } => line,
        _ => 0,
    });
    Ok(entries)
}

/// Names with dots (`tls.server.mode`) are nested tables to TOML: joins them again.
fn flatten(
    path: &str,
    text: &str,
    prefix: &str,
    table: &toml::de::DeTable<'_>,
    entries: &mut Vec<Entry>,
) -> Result<(), ConfigError> {
    for (key, value) in table {
        let line = line_of(text, key.span().start);
        let name = format!("{prefix}{}", key.get_ref());
        if let toml::de::DeValue::Table(inner) = value.get_ref() {
            flatten(path, text, &format!("{name}."), inner, entries)?;
            continue;
        }
        let value = toml_text(value.get_ref()).ok_or_else(|| ConfigError::File {
            path: path.to_owned(),
            problem: format!("line {line}: `{name}` must be a text, a number, true or false"),
        })?;
        entries.push(Entry { key: name, value, origin: Origin::File { path: path.to_owned(), line } });
    }
    Ok(())
}

/// The text of a scalar; lists become what the setting's own list syntax is.
fn toml_text(value: &toml::de::DeValue<'_>) -> Option<String> {
    use toml::de::DeValue;
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string().replace('_', "")),
        DeValue::Float(number) => Some(number.to_string()),
        DeValue::Boolean(switch) => Some(switch.to_string()),
        DeValue::Array(items) => {
            let texts: Option<Vec<String>> = items.iter().map(|item| toml_text(item.get_ref())).collect();
            let texts = texts?;
            // Addresses are joined as RocketMQ joins them, numbers (cores) by commas.
            let comma = texts.iter().all(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            Some(texts.join(if comma { "," } else { ";" }))
        }
        DeValue::Datetime(_) | DeValue::Table(_) => None,
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Java's `Properties.load`, except that the text is UTF-8 instead of Latin-1.
fn properties_entries(path: &str, text: &str) -> Result<Vec<Entry>, ConfigError> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, first)) = lines.next() {
        let first = first.trim_start();
        if first.is_empty() || first.starts_with(['#', '!']) {
            continue;
        }
        let mut logical = first.to_owned();
        while ends_in_continuation(&logical) {
            logical.pop();
            match lines.next() {
                Some((_, more)) => logical.push_str(more.trim_start()),
                None => break,
            }
        }
        let (key, value) = split_property(&logical);
        let origin = Origin::File { path: path.to_owned(), line: index + 1 };
        let broken = |problem: String| ConfigError::File {
            path: path.to_owned(),
            problem: format!("line {}: {problem}", index + 1),
        };
        let key = unescape(key).map_err(broken)?;
        if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) {
            return Err(broken(format!(
                "is neither TOML nor a `key=value` line of a RocketMQ broker.conf: `{}`",
                first.trim_end()
            )));
        }
        let value = unescape(value).map_err(broken)?.trim().to_owned();
        entries.push(Entry { key, value, origin });
    }
    Ok(entries)
}

/// A line goes on when it ends in an odd number of backslashes.
fn ends_in_continuation(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// Cuts at the first unescaped `=`, `:` or blank; blanks around one `=` or `:` belong to neither side.
fn split_property(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let key_end = line
        .char_indices()
        .find(|(_, c)| {
            let ends = !escaped && matches!(c, '=' | ':' | ' ' | '\t' | '\u{c}');
            escaped = *c == '\\' && !escaped;
            ends
        })
        .map_or(line.len(), |(index, _)| index);
    let (key, rest) = line.split_at(key_end);
    let rest = rest.trim_start();
    (key, rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_start())
}

fn unescape(text: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match chars.next() {
            Some('t') => plain.push('\t'),
            Some('n') => plain.push('\n'),
            Some('r') => plain.push('\r'),
            Some('f') => plain.push('\u{c}'),
            Some('u') => {
                let hex: String = chars.by_ref().take(4).collect();
                let unit = u32::from_str_radix(&hex, 16).ok().filter(|_| hex.len() == 4);
                let decoded = unit.and_then(char::from_u32);
                plain.push(decoded.ok_or_else(|| format!("`\\u{hex}` is not a character"))?);
            }
            Some(other) => plain.push(other),
            None => {}
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(path: &str, text: &str) -> Vec<(String, String, usize)> {
        let line = |origin: Origin| match origin {
            Origin::File { line, .. } => line,
            other => panic!("{other:?}"),
        };
        parse(path, text).unwrap().into_iter().map(|e| (e.key, e.value, line(e.origin))).collect()
    }

    fn own(expected: &[(&str, &str, usize)]) -> Vec<(String, String, usize)> {
        expected.iter().map(|(k, v, l)| ((*k).to_owned(), (*v).to_owned(), *l)).collect()
    }

    #[test]
    fn toml_is_read_with_lines_in_file_order() {
        let text = "# c\nlistenPort = 10_911\nbackend = \"direct\"\nautoCreateTopicEnable = true\n\
                    namesrvAddr = [\"a:1\", \"b:2\"]\ncores = [1, 2]\n";
        let expected = [
            ("listenPort", "10911", 2),
            ("backend", "direct", 3),
            ("autoCreateTopicEnable", "true", 4),
            ("namesrvAddr", "a:1;b:2", 5),
            ("cores", "1,2", 6),
        ];
        assert_eq!(pairs("x", text), own(&expected));
    }

    #[test]
    fn names_with_dots_are_joined_again() {
        assert_eq!(
            pairs("x", "tls.server.mode = \"enforcing\"\n"),
            own(&[("tls.server.mode", "enforcing", 1)])
        );
        assert_eq!(pairs("x", "[tls]\nenable = true\n"), own(&[("tls.enable", "true", 2)]));
    }

    #[test]
    fn broker_conf_is_read_as_java_reads_it() {
        let text = "\u{feff}# comment\n! also\n\n  brokerName = broker-a  \nnamesrvAddr: 10.0.0.1:9876;10.0.0.2:9876\n\
                    deleteWhen 04\nstorePathRootDir=/a\\\n    /b\nregionId=a\\u0042\\tc\nflag\n\
                    x\\=y.z=1\n";
        let error = parse("broker.conf", text).unwrap_err().to_string();
        assert!(error.contains("line 11") && error.contains("x\\=y.z"), "{error}");
        let good = text.replace("x\\=y.z=1\n", "brokerName=again\n");
        let expected = [
            ("brokerName", "broker-a", 4),
            ("namesrvAddr", "10.0.0.1:9876;10.0.0.2:9876", 5),
            ("deleteWhen", "04", 6),
            ("storePathRootDir", "/a/b", 7),
            ("regionId", "aB\tc", 9),
            ("flag", "", 10),
            ("brokerName", "again", 11),
        ];
        assert_eq!(pairs("broker.conf", &good), own(&expected));
    }

    #[test]
    fn text_that_is_neither_is_refused_with_its_line() {
        let error = parse("x.conf", "listenPort = 1\n[section]\nk = v\n").unwrap_err().to_string();
        assert!(error.contains("x.conf") && error.contains("line 2"), "{error}");
        let error = parse("x.toml", "listenPort = \n").unwrap_err().to_string();
        assert!(error.contains("x.toml") && error.contains("TOML"), "{error}");
        let error = parse("x", "a=\\uZZZZ\n").unwrap_err().to_string();
        assert!(error.contains("not a character"), "{error}");
    }
}
