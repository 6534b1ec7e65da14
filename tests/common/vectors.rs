//! The test vectors of the format, `fixtures/vectors`, which `fixtures/check_format.py` recomputes without this library.
//!
//! They are JSON. This reader supports only what they use: no escapes in strings. Rejected: a JSON package, because it
//! lets its values be compared with numbers by `==`, after which tests of every package must spell out more types.

use core::fmt;
use core::ops::Index;
use std::fs;
use std::path::Path;

/// The vectors in `NAME.json`.
pub(crate) fn vectors(name: &str) -> Value {
    // Searched upwards, because several packages include this file.
    let file = format!("fixtures/vectors/{name}.json");
    let mut paths = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join(&file));
    let path = paths.find(|path| path.is_file()).unwrap_or_else(|| panic!("no {file}"));
    let text = fs::read_to_string(path).unwrap();
    let mut rest = &text[..];
    let value = Value::parse(&mut rest);
    assert_eq!(rest.trim(), "", "{file}");
    value
}

/// A vector, a table of vectors, or a value of a vector. If a value is missing or has another type than a test expects,
/// the panic shows the vector.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    /// Below 2^53.
    Number(f64),
    Text(String),
    List(Vec<Value>),
    Object(Vec<(String, Value)>),
}

impl Value {
    /// Parses the value at the start of `rest`, and advances `rest` past it.
    fn parse(rest: &mut &str) -> Self {
        *rest = rest.trim_start();
        if rest.starts_with('{') {
            return Self::Object(items(rest, '}', |rest| {
                let name = string(rest);
                take(rest, ':');
                (name, Self::parse(rest))
            }));
        }
        if rest.starts_with('[') {
            return Self::List(items(rest, ']', Self::parse));
        }
        if rest.starts_with('"') {
            return Self::Text(string(rest));
        }
        let (word, behind) = rest.split_at(rest.find([',', '}', ']', '\n']).unwrap());
        *rest = behind;
        match word {
            "null" => Self::Null,
            "true" | "false" => Self::Bool(word == "true"),
            _ => Self::Number(word.parse().unwrap_or_else(|error| panic!("{word}: {error}"))),
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        let Self::Object(values) = self else { return None };
        values.iter().find_map(|(own, value)| (own == name).then_some(value))
    }

    fn wanted(&self, what: &str, name: &str) -> ! {
        panic!("'{name}' is no {what} in {self}")
    }

    pub(crate) fn is_null(&self) -> bool {
        *self == Self::Null
    }

    /// The text of a value; `None` for null.
    pub(crate) fn text_or_null(&self, name: &str) -> Option<&str> {
        if self[name].is_null() { None } else { Some(self.text(name)) }
    }

    /// The vectors of a table, which must not be empty.
    pub(crate) fn rows(&self, name: &str) -> &[Self] {
        match &self[name] {
            Self::List(rows) if !rows.is_empty() => rows,
            _ => self.wanted("table", name),
        }
    }

    /// The names and values of an object.
    pub(crate) fn object(&self, name: &str) -> &[(String, Self)] {
        let Self::Object(values) = &self[name] else { self.wanted("object", name) };
        values
    }

    pub(crate) fn bool(&self, name: &str) -> bool {
        let Self::Bool(value) = self[name] else { self.wanted("truth value", name) };
        value
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        let Self::Text(text) = &self[name] else { self.wanted("text", name) };
        text
    }

    pub(crate) fn texts(&self, name: &str) -> Vec<&str> {
        let Self::List(texts) = &self[name] else { self.wanted("list", name) };
        let texts = texts.iter().map(|value| match value {
            Self::Text(text) => text.as_str(),
            _ => self.wanted("list of texts", name),
        });
        texts.collect()
    }

    pub(crate) fn float(&self, name: &str) -> f64 {
        let Self::Number(number) = self[name] else { self.wanted("number", name) };
        number
    }

    pub(crate) fn number(&self, name: &str) -> u64 {
        self[name].as_number().unwrap_or_else(|| self.wanted("whole number", name))
    }

    pub(crate) fn numbers(&self, name: &str) -> Vec<u64> {
        self.rows(name).iter().map(|value| value.as_number().unwrap_or_else(|| self.wanted("list", name))).collect()
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is whole, and below 2^53")]
    pub(crate) fn as_number(&self) -> Option<u64> {
        match *self {
            Self::Number(number) if number >= 0.0 && number.fract() == 0.0 => Some(number as u64),
            _ => None,
        }
    }

    /// A number in hexadecimal digits.
    pub(crate) fn hex(&self, name: &str) -> u64 {
        u64::from_str_radix(self.text(name), 16).unwrap_or_else(|_| self.wanted("number in hexadecimal", name))
    }

    /// Bytes in hexadecimal digits.
    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        let pairs = self.text(name).as_bytes().chunks(2).map(|pair| core::str::from_utf8(pair).unwrap());
        pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap_or_else(|_| self.wanted("hexadecimal", name))).collect()
    }

    /// The concatenated bytes of `fields`.
    pub(crate) fn whole(&self) -> Vec<u8> {
        self.rows("fields").iter().fold(Vec::new(), |mut bytes, field| {
            assert_eq!(field.number("at"), bytes.len() as u64, "{field}");
            bytes.extend(field.bytes("hex"));
            bytes
        })
    }

    /// The listed keys, or the first numbered ones.
    pub(crate) fn keys(&self, name: &str) -> Vec<Vec<u8>> {
        match self[name].as_number() {
            Some(count) => (0..count).map(|key| format!("key-{key:06}").into_bytes()).collect(),
            None => self.texts(name).into_iter().map(|key| key.as_bytes().to_vec()).collect(),
        }
    }
}

impl Index<&str> for Value {
    type Output = Self;

    fn index(&self, name: &str) -> &Self {
        self.get(name).unwrap_or_else(|| self.wanted("value", name))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

fn take(rest: &mut &str, letter: char) {
    *rest = rest.trim_start().strip_prefix(letter).unwrap_or_else(|| panic!("no {letter} at {rest:.80}"));
}

fn string(rest: &mut &str) -> String {
    take(rest, '"');
    let (text, behind) = rest.split_once('"').unwrap();
    assert!(!text.contains('\\'), "an escape in {text}");
    *rest = behind;
    text.to_owned()
}

/// Parses the items between an opening bracket and `close`, separated by commas.
fn items<T>(rest: &mut &str, close: char, item: impl Fn(&mut &str) -> T) -> Vec<T> {
    *rest = &rest[1..];
    let mut items = Vec::new();
    while !rest.trim_start().starts_with(close) {
        if !items.is_empty() {
            take(rest, ',');
        }
        items.push(item(rest));
    }
    take(rest, close);
    items
}
