//! Random JSON Schemas that some text keeps to.

use serde_json::{Map, Value, json};

use crate::chance::Chance;

const NAMES: [&str; 10] =
    ["name", "age", "tag", "x", "first name", "é", "quoted \"key\"", "items", "a_b", "n"];
const WORDS: [&str; 7] = ["red", "green", "", "two words", "a \"quote\"", "line\nbreak", "naïve €"];
const PATTERNS: [&str; 6] = [
    "^[a-z]{2,5}$",
    "^[0-9]{5}(-[0-9]{4})?$",
    "^(foo|bar)+$",
    "^[A-Z][a-z]*$",
    "^\\d{3}$",
    "^[^aeiou\\s]{1,4}$",
];

/// A schema, with definitions it may refer to.
pub fn schema(chance: &mut Chance) -> Value {
    // Most are objects, as in use.
    let mut schema = if chance.percent(60) { object(chance, 3) } else { part(chance, 3) };
    let leaf = part(chance, 0);
    let defs = json!({
        "leaf": leaf,
        "tree": {
            "type": "object",
            "properties": {
                "value": {"$ref": "#/$defs/leaf"},
                "branches": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 2},
            },
            "required": ["value"],
            "additionalProperties": false,
        },
    });
    schema["$defs"] = defs;
    schema
}

fn part(chance: &mut Chance, depth: usize) -> Value {
    let kinds = if depth == 0 { 8 } else { 13 };
    match chance.below(kinds) {
        0 => json!({"type": "boolean"}),
        1 => json!({"type": "null"}),
        2 => integer(chance),
        3 => number(chance),
        4 => string(chance),
        5 => json!({"enum": constants(chance)}),
        6 => json!({"const": constants(chance)[0]}),
        7 => json!({"type": ["boolean", "null"]}),
        8 | 9 => object(chance, depth),
        10 => array(chance, depth),
        11 => {
            let options: Vec<Value> = (0..chance.between(2, 3)).map(|_| part(chance, depth - 1)).collect();
            json!({"anyOf": options})
        }
        _ => json!({"$ref": *chance.pick(&["#/$defs/leaf", "#/$defs/tree"])}),
    }
}

fn integer(chance: &mut Chance) -> Value {
    let low = chance.between(-1500, 1500);
    let high = low + chance.between(0, 3000);
    match chance.below(4) {
        0 => json!({"type": "integer", "minimum": low, "maximum": high}),
        1 => json!({"type": "integer", "exclusiveMinimum": low, "exclusiveMaximum": high + 2}),
        2 => {
            json!({"type": "integer", "minimum": low, "maximum": high + 10, "multipleOf": chance.between(2, 5)})
        }
        _ => json!({"type": "integer", "minimum": low, "maximum": low}),
    }
}

fn number(chance: &mut Chance) -> Value {
    let low = chance.between(-4000, 4000) as f64 / 8.0;
    let high = low + chance.between(1, 4000) as f64 / 8.0;
    if chance.percent(50) {
        json!({"type": "number", "minimum": low, "maximum": high})
    } else {
        json!({"type": "number", "exclusiveMinimum": low, "exclusiveMaximum": high})
    }
}

fn string(chance: &mut Chance) -> Value {
    let low = chance.between(0, 5);
    match chance.below(4) {
        0 => json!({"type": "string", "pattern": *chance.pick(&PATTERNS)}),
        1 => json!({"type": "string", "maxLength": low + chance.between(0, 9)}),
        2 => json!({"type": "string", "minLength": low, "maxLength": low + chance.between(0, 9)}),
        _ => json!({"type": "string", "minLength": low}),
    }
}

fn constants(chance: &mut Chance) -> Vec<Value> {
    let count = chance.between(1, 4);
    (0..count)
        .map(|_| match chance.below(6) {
            0 => json!(chance.between(-20, 20)),
            1 => json!(chance.between(-20, 20) as f64 / 4.0),
            2 => json!(null),
            3 => json!([true, {"deep": *chance.pick(&WORDS)}]),
            _ => json!(*chance.pick(&WORDS)),
        })
        .collect()
}

fn object(chance: &mut Chance, depth: usize) -> Value {
    let mut properties = Map::new();
    for _ in 0..chance.between(0, 5) {
        properties.insert((*chance.pick(&NAMES)).to_owned(), part(chance, depth - 1));
    }
    let required: Vec<String> =
        properties.iter().map(|(name, _)| name.clone()).filter(|_| chance.percent(60)).collect();
    // Other properties of any kind would end texts rarely, and hold numbers that no f64 is.
    let additional = if chance.percent(20) { part(chance, 0) } else { json!(false) };
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": additional})
}

fn array(chance: &mut Chance, depth: usize) -> Value {
    let low = chance.between(0, 2);
    let high = low + chance.between(0, 3);
    let items = part(chance, depth - 1);
    if chance.percent(25) {
        let first = part(chance, depth - 1);
        return json!({"type": "array", "prefixItems": [first, items], "items": false, "minItems": low});
    }
    json!({"type": "array", "items": items, "minItems": low, "maxItems": high})
}
