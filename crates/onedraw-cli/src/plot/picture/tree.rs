//! A tree from left to right, one column per step of the search.

use onedraw::beam::Fate;

use crate::plot::picture::{Anchor, Colour, LETTER, Picture, SMALL, TEXT};
use crate::plot::tree::{ENDS, Tree};

/// Space around the picture.
const MARGIN: f64 = 16.0;
/// The height of a leaf.
const ROW: f64 = 19.0;
/// The space between a token and the next column.
const GAP: f64 = 34.0;

/// Paints a tree. `labels` are those of its nodes.
pub fn picture(tree: &Tree, labels: &[String]) -> Picture {
    let walk = tree.walk();
    let words: Vec<String> = tree
        .nodes
        .iter()
        .zip(labels)
        .map(|(node, label)| format!("{label} {:.2}{}", node.score, node.end()))
        .collect();
    // A column is as wide as its longest words.
    let mut columns: Vec<f64> = Vec::new();
    for &(node, depth) in &walk {
        columns.resize(columns.len().max(depth + 1), 0.0);
        columns[depth] = columns[depth].max(words[node].chars().count() as f64 * LETTER * TEXT);
    }
    let starts: Vec<f64> = columns
        .iter()
        .scan(MARGIN + GAP, |x, width| {
            let start = *x;
            *x += width + GAP;
            Some(start)
        })
        .collect();
    let top = MARGIN + 38.0;
    let heights = heights(tree, &walk);
    let leaves = heights.iter().copied().fold(0.0, f64::max) + 1.0;
    let right = starts.last().zip(columns.last()).map_or(0.0, |(start, width)| start + width);
    let title = tree.title.chars().count() as f64 * LETTER * TEXT + MARGIN;
    let mut picture = Picture::new(right.max(title).max(560.0) + MARGIN, top + leaves * ROW + MARGIN);
    picture.text((MARGIN, MARGIN + 8.0), tree.title.as_str(), Anchor::Start, Colour::Ink);
    let legend = format!("orange: the best text   grey: dropped   {ENDS}");
    picture.sized_text((MARGIN, MARGIN + 27.0), legend, Anchor::Start, Colour::Grey, SMALL);
    let at = |node: usize| top + (heights[node] + 0.5) * ROW;
    let origin = tree.roots.iter().map(|&root| at(root)).sum::<f64>() / tree.roots.len().max(1) as f64;
    // Lines come before words, and those of the best text come last, so that no other line lies over them.
    let mut lines: Vec<&(usize, usize)> = walk.iter().collect();
    lines.sort_by_key(|(node, _)| paint_order(tree, *node));
    for &&(node, depth) in &lines {
        let from = match tree.nodes[node].parent {
            Some(parent) => {
                (starts[depth - 1] + words[parent].chars().count() as f64 * LETTER * TEXT + 6.0, at(parent))
            }
            None => (MARGIN, origin),
        };
        let to = (starts[depth] - 5.0, at(node));
        // The line leaves the parent's row before the end of the column, and then goes straight to the word.
        let bend = (to.0 - 10.0).max(from.0);
        let turn = (bend - 14.0).max(from.0);
        picture.line(vec![from, (turn, from.1), (bend, to.1), to], colour(tree, node), thickness(tree, node));
    }
    for &(node, depth) in &walk {
        let ink = match tree.nodes[node].fate {
            _ if tree.nodes[node].is_best => Colour::Orange,
            Fate::Dropped => Colour::Grey,
            Fate::Kept | Fate::Ended | Fate::Cut => Colour::Ink,
        };
        picture.text((starts[depth], at(node)), words[node].as_str(), Anchor::Start, ink);
    }
    picture
}

/// The row of each node, from the top: leaves one below the other, and a parent in the middle of its
/// children.
fn heights(tree: &Tree, walk: &[(usize, usize)]) -> Vec<f64> {
    let mut heights = vec![0.0; tree.nodes.len()];
    let mut next = 0.0;
    for &(node, _) in walk {
        if tree.nodes[node].children.is_empty() {
            heights[node] = next;
            next += 1.0;
        }
    }
    for &(node, _) in walk.iter().rev() {
        let children = &tree.nodes[node].children;
        if let (Some(&first), Some(&last)) = (children.first(), children.last()) {
            heights[node] = 0.5 * (heights[first] + heights[last]);
        }
    }
    heights
}

/// The place of a node's line in the order of painting: a higher one lies over a lower one.
fn paint_order(tree: &Tree, node: usize) -> u8 {
    match tree.nodes[node].fate {
        _ if tree.nodes[node].is_best => 2,
        Fate::Kept | Fate::Ended | Fate::Cut => 1,
        Fate::Dropped => 0,
    }
}

fn colour(tree: &Tree, node: usize) -> Colour {
    match paint_order(tree, node) {
        0 => Colour::Pale,
        1 => Colour::Blue,
        _ => Colour::Orange,
    }
}

fn thickness(tree: &Tree, node: usize) -> u32 {
    if paint_order(tree, node) == 0 { 1 } else { 2 }
}
