//! Every rule of the reader, with its exact message.

use onedraw::Row;

use std::io;

use super::*;

/// A file of that version with that header, as NumPy pads it, and that data.
fn file(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
    let width = if version == 1 { 2 } else { 4 };
    let mut text = header.as_bytes().to_vec();
    while !(8 + width + text.len() + 1).is_multiple_of(64) {
        text.push(b' ');
    }
    text.push(b'\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend([version, 0]);
    bytes.extend(&(text.len() as u32).to_le_bytes()[..width]);
    bytes.extend(text);
    bytes.extend(data);
    bytes
}

fn header(descr: &str, shape: &str) -> String {
    format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}")
}

fn f32_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn f16_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|&value| f16::from_f32(value).to_le_bytes()).collect()
}

/// The rows, widened.
fn rows(matrix: &Matrix) -> Vec<Vec<f32>> {
    let widen = |row| match row {
        Row::F32(row) => row.to_vec(),
        Row::F16(row) => row.iter().map(|value| value.to_f32()).collect(),
        Row::Bf16(_) => panic!("a .npy holds no bf16"),
    };
    (0..matrix.rows()).map(|row| widen(matrix.row(row))).collect()
}

fn message(bytes: &[u8]) -> String {
    read(bytes).expect_err("an error").to_string()
}

/// The message for a header and no data.
fn header_message(header: &str) -> String {
    message(&file(1, header, &[]))
}

#[test]
fn every_version_dtype_and_shape() {
    let values = [0.5, -1.25, f32::NEG_INFINITY, 3.0, -0.0, 1024.0];
    for version in [1, 2, 3] {
        for (descr, data) in [("<f4", f32_bytes(&values)), ("<f2", f16_bytes(&values))] {
            let one = read(&file(version, &header(descr, "(6,)"), &data)[..]).expect("one row");
            assert_eq!((one.rows(), one.vocabulary()), (1, 6));
            assert_eq!(rows(&one), [values.to_vec()]);
            let two = read(&file(version, &header(descr, "(2, 3)"), &data)[..]).expect("two rows");
            assert_eq!((two.rows(), two.vocabulary()), (2, 3));
            assert_eq!(rows(&two), [values[..3].to_vec(), values[3..].to_vec()]);
        }
    }
}

#[test]
fn the_bits_of_nan_survive() {
    let odd = f32::from_bits(0xffc1_2345);
    let matrix = read(&file(1, &header("<f4", "(1,)"), &f32_bytes(&[odd]))[..]).expect("one row");
    assert_eq!(rows(&matrix)[0][0].to_bits(), 0xffc1_2345);
}

#[test]
#[cfg(target_endian = "little")]
fn the_byte_order_of_a_little_endian_host() {
    for descr in ["=f4", "|f4"] {
        assert_eq!(
            rows(&read(&file(1, &header(descr, "(1,)"), &f32_bytes(&[2.0]))[..]).expect(descr)),
            [[2.0]]
        );
    }
    for descr in ["=f2", "|f2"] {
        assert_eq!(
            rows(&read(&file(1, &header(descr, "(1,)"), &f16_bytes(&[2.0]))[..]).expect(descr)),
            [[2.0]]
        );
    }
}

#[test]
fn any_way_python_may_write_the_header() {
    let data = f32_bytes(&[1.0, 2.0]);
    for text in [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2)}",
        "{\"shape\":(1,2,),\"fortran_order\":False,\"descr\":\"<f4\"}",
        "  {\t'shape' : ( 1 , 2 ) ,\n'descr' : '<f4' , 'fortran_order' : False }\r\n",
    ] {
        assert_eq!(rows(&read(&file(1, text, &data)[..]).expect(text)), [[1.0, 2.0]], "{text}");
    }
}

#[test]
fn empty_arrays_are_read() {
    let shape = |text: &str| {
        let matrix = read(&file(1, &header("<f4", text), &[])[..]).expect(text);
        (matrix.rows(), matrix.vocabulary())
    };
    assert_eq!(shape("(0,)"), (1, 0));
    assert_eq!(shape("(3, 0)"), (3, 0));
    assert_eq!(shape("(0, 5)"), (0, 5));
    assert_eq!(shape("(0, 18446744073709551615)"), (0, usize::MAX));
}

#[test]
fn not_a_npy() {
    assert_eq!(message(b""), "not a .npy file: it is empty");
    assert_eq!(
        message(b"\x93NUM"),
        "not a .npy file: it begins with 93 4e 55 4d, not with 93 4e 55 4d 50 59 (\\x93NUMPY)"
    );
    assert_eq!(
        message(b"PK\x03\x04\x14\0\0\0\0\0"),
        "not a .npy file: it begins with 50 4b 03 04 14 00, not with 93 4e 55 4d 50 59 (\\x93NUMPY)"
    );
}

#[test]
fn unknown_versions() {
    assert_eq!(message(b"\x93NUMPY\x04\0\0\0"), ".npy version 4.0 is unknown; allowed are 1.0, 2.0 and 3.0");
    assert_eq!(
        message(b"\x93NUMPY\x01\x02\0\0"),
        ".npy version 1.2 is unknown; allowed are 1.0, 2.0 and 3.0"
    );
    assert_eq!(message(b"\x93NUMPY\0\0\0\0"), ".npy version 0.0 is unknown; allowed are 1.0, 2.0 and 3.0");
}

#[test]
fn a_header_cut_short() {
    let cut = |bytes: &[u8]| message(bytes).replace("the .npy header is cut short: ", "");
    assert_eq!(cut(b"\x93NUMPY"), "6 bytes found, at least 10 needed");
    assert_eq!(cut(b"\x93NUMPY\x01"), "7 bytes found, at least 10 needed");
    assert_eq!(cut(b"\x93NUMPY\x01\0\x76"), "9 bytes found, at least 10 needed");
    assert_eq!(cut(b"\x93NUMPY\x02\0\x76\0\0"), "11 bytes found, at least 12 needed");
    assert_eq!(cut(&file(1, &header("<f4", "(2,)"), &[])[..100]), "100 bytes found, at least 128 needed");
    assert_eq!(cut(&file(3, &header("<f4", "(2,)"), &[])[..127]), "127 bytes found, at least 128 needed");
    assert_eq!(
        message(b"\x93NUMPY\x02\0\xff\xff\xff\xff{"),
        "the .npy header claims 4294967295 bytes; at most 1048576 are allowed"
    );
}

#[test]
fn a_header_that_cannot_be_parsed() {
    for (text, problem) in [
        ("", "expected '{' at its byte 0"),
        ("[1]", "expected '{' at its byte 0"),
        ("{descr: '<f4'}", "expected a key in quotes or '}' at its byte 1"),
        ("{'descr' '<f4'}", "expected ':' at its byte 9"),
        ("{'descr': f4}", "expected a dtype in quotes at its byte 10"),
        ("{'descr': '<f4}", "expected a closing quote at its byte 15"),
        ("{'descr': '\\x3cf4'}", "expected a closing quote at its byte 11"),
        ("{'descr': '<f4' 'shape': (1,)}", "expected ',' or '}' at its byte 16"),
        ("{'fortran_order': 0}", "expected True or False at its byte 18"),
        ("{'shape': [1]}", "expected '(' at its byte 10"),
        ("{'shape': (1)}", "expected ',' at its byte 12"),
        ("{'shape': (1, 2 3)}", "expected ',' or ')' at its byte 16"),
        ("{'shape': (,)}", "expected an integer of at least 0, or ')' at its byte 11"),
        ("{'shape': (-1,)}", "expected an integer of at least 0, or ')' at its byte 11"),
        ("{'shape': (007,)}", "expected an integer of at least 0, or ')' at its byte 11"),
        ("{'shape': (1.5,)}", "expected ',' at its byte 12"),
        ("{'descr': '<f4'", "expected ',' or '}' at its byte 15"),
        ("{} # comment", "expected nothing but white space at its byte 3"),
    ] {
        let expected = format!("the .npy header cannot be parsed: {problem}");
        let error = header::parse(text.as_bytes()).expect_err("an error");
        assert_eq!(error.to_string(), expected, "{text}");
    }
    for (text, problem) in [
        ("{}", "key 'descr' is missing"),
        ("{'descr': '<f4'}", "key 'fortran_order' is missing"),
        ("{'descr': '<f4', 'fortran_order': False}", "key 'shape' is missing"),
        ("{'descr': '<f4', 'order': 'C'}", "key 'order' is unknown"),
        ("{'\t': 'C'}", "key '\\t' is unknown"),
        ("{'shape': (1,), 'shape': (1,)}", "key 'shape' is there twice"),
    ] {
        let expected =
            format!("the .npy header cannot be parsed: {problem}; needed are descr, fortran_order and shape");
        assert_eq!(header_message(text), expected, "{text}");
    }
}

#[test]
fn other_dtypes() {
    for descr in [">f8", ">f4", ">f2", "<i4", "|u1", "<c8", "f4", "", "<f4 ", "\u{e9}"] {
        let expected =
            format!("dtype '{descr}' is not read; allowed are '<f4' (f32), '<f2' (f16) and '<f8' (f64)");
        assert_eq!(header_message(&header(descr, "(1,)")), expected);
    }
    let structured = "a structured dtype is not read; allowed are '<f4' (f32), '<f2' (f16) and '<f8' (f64)";
    for descr in ["[('a', '<f4'), ('b', '<i4')]", "('<f4', (2,))"] {
        let text = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (1,), }}");
        assert_eq!(header_message(&text), structured);
    }
}

#[test]
fn fortran_order() {
    let text = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }";
    assert_eq!(header_message(text), "the array is in Fortran order; allowed is C order");
}

#[test]
fn other_ranks() {
    for (shape, dimensions) in [("()", 0), ("(1, 1, 1)", 3), ("(1, 1, 1, 1)", 4)] {
        let expected = format!("the array has {dimensions} dimensions; allowed are 1 ([V]) and 2 ([B, V])");
        assert_eq!(header_message(&header("<f4", shape)), expected);
    }
}

#[test]
#[cfg(target_pointer_width = "64")]
fn shapes_beyond_all_memory() {
    let expected = "the shape is too large: its size in bytes does not fit 64 bits";
    for shape in ["(18446744073709551616,)", "(4294967296, 4294967296)", "(4611686018427387904,)"] {
        assert_eq!(header_message(&header("<f4", shape)), expected);
    }
    // Fits, but nothing of it is there, and nothing is allocated for it.
    let message = header_message(&header("<f4", "(1152921504606846976,)"));
    assert_eq!(message, "the data is cut short: 0 bytes found, 4611686018427387904 needed by the shape");
}

#[test]
fn data_of_another_length() {
    let shape = header("<f4", "(2, 3)");
    let cut = |bytes| message(&file(1, &shape, &vec![0; bytes]));
    assert_eq!(cut(0), "the data is cut short: 0 bytes found, 24 needed by the shape");
    assert_eq!(cut(23), "the data is cut short: 23 bytes found, 24 needed by the shape");
    assert_eq!(cut(25), "bytes follow the data: the shape needs 24, and the file must end there");
    let half = message(&file(1, &header("<f2", "(5,)"), &[0; 9]));
    assert_eq!(half, "the data is cut short: 9 bytes found, 10 needed by the shape");
    let empty = message(&file(1, &header("<f2", "(0,)"), &[0]));
    assert_eq!(empty, "bytes follow the data: the shape needs 0, and the file must end there");
}

#[test]
fn a_reader_that_fails() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    assert_eq!(read(Broken).expect_err("an error").to_string(), "cannot be read: the disk is gone");
}

#[test]
fn no_bytes_make_it_panic() {
    let good = file(2, &header("<f4", "(2, 3)"), &f32_bytes(&[0.0; 6]));
    let mut state = 7_u32;
    let mut random = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize
    };
    for length in 0..good.len() {
        assert!(read(&good[..length]).is_err(), "{length}");
    }
    for _ in 0..20_000 {
        let mut bytes = good.clone();
        for _ in 0..1 + random() % 4 {
            let at = random() % bytes.len();
            bytes[at] = b"\0{}()[]',:0159TFslf<>|= \\\n\xff"[random() % 27];
        }
        // Either answer will do.
        let _ = read(&bytes[..]);
    }
}
