// Where the nodes of a beam search stand in a drawing: a column for each token, lines that do not cross.

/** @typedef {import("../engine/contract.js").BeamNode} BeamNode */

/** @typedef {BeamNode & { column: number, row: number }} Placed */

/**
 * Places nodes, children right of their parent. A leaf takes a row; a parent stands at its first child's.
 * @param {BeamNode[]} nodes each after its parent
 * @returns {{ placed: Placed[], columns: number, rows: number }}
 */
export function place(nodes) {
  /** @type {Map<number | null, BeamNode[]>} */
  const children = new Map();
  for (const node of nodes) children.set(node.parent, [...(children.get(node.parent) ?? []), node]);
  /** @type {Placed[]} */
  const placed = [];
  let rows = 0;
  let columns = 0;
  // A stack, as texts may be longer than calls may be nested.
  const open = (children.get(null) ?? []).toReversed().map((node) => ({ node, column: 0, isFirst: false }));
  if (open.length > 0) /** @type {{ isFirst: boolean }} */ (open.at(-1)).isFirst = true;
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { node, column, isFirst } = next;
    if (!isFirst) rows++;
    columns = Math.max(columns, column + 1);
    placed.push({ ...node, column, row: rows });
    const below = children.get(node.node) ?? [];
    // Those that the search went on with come first, so that its paths are straight.
    const sorted = below.toSorted((a, b) => Number(b.kept) - Number(a.kept));
    for (const [index, child] of sorted.toReversed().entries()) {
      open.push({ node: child, column: column + 1, isFirst: index === sorted.length - 1 });
    }
  }
  return { placed, columns, rows: placed.length === 0 ? 0 : rows + 1 };
}

/**
 * The nodes on the way to a node, itself included.
 * @param {BeamNode[]} nodes
 * @param {number} node
 * @returns {Set<number>}
 */
export function pathTo(nodes, node) {
  const known = new Map(nodes.map((each) => [each.node, each]));
  const path = new Set();
  for (
    let at = known.get(node);
    at !== undefined && !path.has(at.node);
    at = at.parent === null ? undefined : known.get(at.parent)
  ) {
    path.add(at.node);
  }
  return path;
}
