//! What a model remembers of a sequence: the keys and values of its positions, in pages of sixteen positions
//! that forks share.

use std::sync::Arc;

use crate::config::Config;
use crate::error::ModelError;
use crate::model::Sequence;

/// How many positions a page has: the lanes of a vector.
pub(crate) const PAGE: usize = 16;

/// The sizes that decide where a number is stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Layout {
    pub layers: usize,
    pub kv_heads: usize,
    pub head_size: usize,
}

impl Layout {
    pub(crate) fn new(config: &Config) -> Self {
        Self { layers: config.layers, kv_heads: config.kv_heads, head_size: config.head_size }
    }

    /// How many numbers the keys of one position have in one layer; the values have as many.
    pub(crate) fn width(&self) -> usize {
        self.kv_heads * self.head_size
    }
}

/// The keys and values of sixteen positions in all layers.
///
/// Keys are stored number by number, each for sixteen positions side by side, so that one vector holds one
/// number of all of them. Values are stored position by position.
#[derive(Clone)]
pub(crate) struct Page {
    layout: Layout,
    numbers: Vec<f32>,
}

impl Page {
    pub(crate) fn new(layout: Layout) -> Self {
        Self { layout, numbers: vec![0.0; layout.layers * 2 * layout.width() * PAGE] }
    }

    /// Where the keys and values of one head in one layer begin.
    fn part(&self, layer: usize, head: usize) -> usize {
        (layer * self.layout.kv_heads + head) * 2 * self.layout.head_size * PAGE
    }

    /// The keys of one head: `keys[number][position]`.
    pub(crate) fn keys(&self, layer: usize, head: usize) -> &[[f32; PAGE]] {
        let start = self.part(layer, head);
        self.numbers[start..start + self.layout.head_size * PAGE].as_chunks().0
    }

    /// The values of one head, position by position.
    pub(crate) fn values(&self, layer: usize, head: usize) -> &[f32] {
        let start = self.part(layer, head) + self.layout.head_size * PAGE;
        &self.numbers[start..start + self.layout.head_size * PAGE]
    }

    /// Stores the keys and values of one position in one layer.
    pub(crate) fn put(&mut self, slot: usize, layer: usize, keys: &[f32], values: &[f32]) {
        let size = self.layout.head_size;
        for head in 0..self.layout.kv_heads {
            let start = self.part(layer, head);
            let (own_keys, own_values) =
                self.numbers[start..start + 2 * size * PAGE].split_at_mut(size * PAGE);
            for (i, &key) in keys[head * size..(head + 1) * size].iter().enumerate() {
                own_keys[i * PAGE + slot] = key;
            }
            own_values[slot * size..(slot + 1) * size]
                .copy_from_slice(&values[head * size..(head + 1) * size]);
        }
    }

    /// A page with one layer of this one.
    fn of_layer(&self, layer: usize) -> Self {
        let layout = Layout { layers: 1, ..self.layout };
        let (start, end) = (self.part(layer, 0), self.part(layer + 1, 0));
        Self { layout, numbers: self.numbers[start..end].to_vec() }
    }
}

/// The keys and values of a node of a tree: a position that is not yet part of the sequence.
#[derive(Clone)]
pub(crate) struct Node {
    parent: Option<usize>,
    /// For every layer the keys, then the values.
    numbers: Vec<f32>,
}

/// What a [`Llama`](crate::llama::Llama) remembers of one sequence. A clone shares the pages.
#[derive(Clone)]
pub struct Memory {
    layout: Layout,
    pages: Vec<Arc<Page>>,
    length: usize,
    /// How many positions went through all layers.
    whole: usize,
    /// The fewest layers that any of the other positions went through.
    shallowest: usize,
    /// The nodes of the last run, if it was a tree.
    nodes: Vec<Node>,
}

impl Memory {
    pub(crate) fn new(layout: Layout) -> Self {
        Self { layout, pages: Vec::new(), length: 0, whole: 0, shallowest: layout.layers, nodes: Vec::new() }
    }

    /// Whether it belongs to a model of these sizes.
    pub(crate) fn is_of(&self, layout: Layout) -> bool {
        self.layout == layout
    }

    /// How many positions went through all layers.
    pub(crate) fn whole(&self) -> usize {
        self.whole
    }

    /// How many layers every position went through at least.
    pub(crate) fn shallowest(&self) -> usize {
        self.shallowest
    }

    /// Whether the last run was a tree and [`Sequence::keep`] was not called yet.
    pub(crate) fn has_nodes(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// The keys and values of a position in all layers.
    #[cfg(test)]
    pub(crate) fn numbers(&self, position: usize) -> Vec<f32> {
        let (page, slot, size) = (&self.pages[position / PAGE], position % PAGE, self.layout.head_size);
        let heads = (0..self.layout.layers)
            .flat_map(|layer| (0..self.layout.kv_heads).map(move |head| (layer, head)));
        let both = |(layer, head): (usize, usize)| {
            let keys = page.keys(layer, head).iter().map(move |keys| keys[slot]);
            keys.chain(page.values(layer, head)[slot * size..(slot + 1) * size].iter().copied())
                .collect::<Vec<_>>()
        };
        heads.flat_map(both).collect()
    }

    pub(crate) fn pages(&self) -> &[Arc<Page>] {
        &self.pages
    }

    /// Makes room for more positions. A page that a fork shares and that is not full is copied.
    pub(crate) fn grow(&mut self, positions: usize) {
        let end = self.length + positions;
        if let (false, Some(last)) = (self.length.is_multiple_of(PAGE), self.pages.last_mut()) {
            Arc::make_mut(last);
        }
        while self.pages.len() * PAGE < end {
            self.pages.push(Arc::new(Page::new(self.layout)));
        }
    }

    /// Stores the keys and values of a position for which there is room.
    pub(crate) fn put(&mut self, position: usize, layer: usize, keys: &[f32], values: &[f32]) {
        if let Some(page) = self.pages.get_mut(position / PAGE) {
            Arc::make_mut(page).put(position % PAGE, layer, keys, values);
        }
    }

    /// Makes the positions that were stored, in this many layers, part of the sequence.
    pub(crate) fn extend(&mut self, positions: usize, layers: usize) {
        self.length += positions;
        self.shallowest = self.shallowest.min(layers);
        if layers == self.layout.layers {
            self.whole = self.length;
            self.shallowest = layers;
        }
    }

    /// Begins a tree of these nodes.
    pub(crate) fn plant(&mut self, parents: &[Option<usize>]) {
        let numbers = vec![0.0; self.layout.layers * 2 * self.layout.width()];
        self.nodes = parents.iter().map(|&parent| Node { parent, numbers: numbers.clone() }).collect();
    }

    /// Stores the keys and values of a node.
    pub(crate) fn put_node(&mut self, node: usize, layer: usize, keys: &[f32], values: &[f32]) {
        let width = self.layout.width();
        let own = &mut self.nodes[node].numbers[layer * 2 * width..(layer + 1) * 2 * width];
        own[..width].copy_from_slice(keys);
        own[width..].copy_from_slice(values);
    }

    /// The nodes on the path from the text to this one.
    fn path(&self, node: usize) -> Vec<usize> {
        let mut path = vec![node];
        while let Some(parent) = self.nodes[path[path.len() - 1]].parent {
            path.push(parent);
        }
        path.reverse();
        path
    }

    /// Pages, of one layer each, that end with the path to a node. If the last page of the sequence is not
    /// full, the first of them is a copy of it and continues with the path, so that the nodes are stored as
    /// the positions of a text would be.
    pub(crate) fn branch(&self, node: usize, layer: usize) -> Vec<Page> {
        let width = self.layout.width();
        let mut slot = self.length % PAGE;
        let mut pages = Vec::new();
        if slot > 0 {
            pages.push(self.pages[self.length / PAGE].of_layer(layer));
        }
        for node in self.path(node) {
            if slot == 0 {
                pages.push(Page::new(Layout { layers: 1, ..self.layout }));
            }
            let (keys, values) =
                self.nodes[node].numbers[layer * 2 * width..(layer + 1) * 2 * width].split_at(width);
            if let Some(page) = pages.last_mut() {
                page.put(slot, 0, keys, values);
            }
            slot = (slot + 1) % PAGE;
        }
        pages
    }

    /// For each node, a leaf of the tree below it (or the node itself): the pages of the leaf's branch serve
    /// the node.
    pub(crate) fn leaves(&self) -> Vec<usize> {
        let mut leaves: Vec<usize> = (0..self.nodes.len()).collect();
        for node in (0..self.nodes.len()).rev() {
            if let Some(parent) = self.nodes[node].parent {
                leaves[parent] = leaves[node];
            }
        }
        leaves
    }

    /// The depth of a node; 1 for those that follow the text.
    pub(crate) fn depth(&self, node: usize) -> usize {
        self.path(node).len()
    }
}

impl Sequence for Memory {
    fn len(&self) -> usize {
        self.length
    }

    fn cut(&mut self, length: usize) {
        self.nodes.clear();
        self.length = self.length.min(length);
        self.whole = self.whole.min(self.length);
        if self.whole == self.length {
            self.shallowest = self.layout.layers;
        }
        self.pages.truncate(self.length.div_ceil(PAGE));
    }

    fn keep(&mut self, path: &[usize]) -> Result<(), ModelError> {
        if self.nodes.is_empty() && path.is_empty() {
            // The last run was not a tree. It may have exited early, so its positions may not count as whole.
            return Ok(());
        }
        let follows = |place: usize| {
            let parent = place.checked_sub(1).map(|before| path[before]);
            self.nodes.get(path[place]).is_some_and(|node| node.parent == parent)
        };
        if let Some(place) = (0..path.len()).find(|&place| !follows(place)) {
            let before =
                place.checked_sub(1).map_or("the text".to_owned(), |before| path[before].to_string());
            return Err(ModelError::Request(format!(
                "node {} does not follow {before} in the tree",
                path[place]
            )));
        }
        let nodes = std::mem::take(&mut self.nodes);
        let width = self.layout.width();
        let path: Vec<&Node> = path.iter().filter_map(|&node| nodes.get(node)).collect();
        self.grow(path.len());
        for (i, node) in path.iter().enumerate() {
            for (layer, numbers) in node.numbers.chunks_exact(2 * width).enumerate() {
                let (keys, values) = numbers.split_at(width);
                self.put(self.length + i, layer, keys, values);
            }
        }
        self.extend(path.len(), self.layout.layers);
        Ok(())
    }
}
