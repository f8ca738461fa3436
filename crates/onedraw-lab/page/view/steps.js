// The buttons that go back and forth between states, and that set a second setting beside the first.

import { button, set } from "./dom.js";

/** @typedef {import("../lab.js").Lab} Lab */

/**
 * The buttons at the top of the page.
 * @param {Lab} lab
 */
export function stepButtons(lab) {
  const undo = button("Undo", () => lab.undo(), { id: "undo" });
  const redo = button("Redo", () => lab.redo(), { id: "redo" });
  const compare = button("", () => toggleBeside(lab), { id: "compare" });
  const render = () => {
    undo.disabled = !lab.history.canUndo;
    redo.disabled = !lab.history.canRedo;
    const isBeside = lab.state.beside !== null;
    compare.textContent = isBeside ? "Stop comparing" : "Compare two settings";
    set(compare, { "aria-pressed": String(isBeside) });
  };
  lab.on("state", render);
  render();
  return [undo, redo, compare];
}

/** @param {Lab} lab */
function toggleBeside(lab) {
  const { params, order, beside } = lab.state;
  const { position } = lab.selected;
  if (beside !== null) {
    lab.change("One setting", { beside: null }, lab.run.tokens.length);
    return;
  }
  const { seed, max_tokens, ...own } = params;
  lab.change("Two settings", { beside: { params: own, order } }, lab.run.tokens.length);
  lab.select("beside", position);
}
