// A link that holds what is on the page, and the code that does the same.

import { askOnce } from "../engine/contract.js";
import { toShared } from "../model/link.js";
import { writeQuestion } from "../model/state.js";
import { copyable, openDialog } from "./dialog.js";
import { button, h } from "./dom.js";
import { notify } from "./notices.js";

/** @typedef {import("../lab.js").Lab} Lab */
/** @typedef {import("../engine/contract.js").Code} Code */

/**
 * The two buttons at the top of the page.
 * @param {Lab} lab
 */
export function shareButtons(lab) {
  return [
    button("Share", () => telling(() => share(lab)), { id: "share" }),
    button("As code", () => telling(() => showCode(lab)), { id: "code" }),
  ];
}

/** @param {Lab} lab */
async function share(lab) {
  const { fragment } = await askOnce(lab.engine, "share", { state: toShared(withSeed(lab)) });
  window.history.replaceState(null, "", `#${fragment}`);
  const about =
    "The link holds the prompt, the parameters, the seed and the branch. It shows the same text on any machine.";
  openDialog("Share", h("p", {}, about), copyable("The link", window.location.href));
}

/**
 * The state with the seed that its text was written with, where it names none.
 * @param {Lab} lab
 */
function withSeed({ state, run }) {
  const { seed } = state.params;
  if ((seed !== undefined && seed !== null) || run.seed === "") return state;
  return { ...state, params: { ...state.params, seed: run.seed } };
}

/** @param {Lab} lab */
async function showCode(lab) {
  const { engine, search } = lab;
  const text = await askOnce(engine, "code", writeQuestion(lab.state, lab.selected.side));
  if (search === null) {
    openDialog("As code", ...codeOf(text));
    return;
  }
  const beams = codeOf(await askOnce(engine, "code", search), " for the beams");
  openDialog("As code", ...codeOf(text), h("p", {}, "The search for the beams that are shown:"), ...beams);
}

/**
 * What is told of a text or of a search, in four languages.
 * @param {Code} code
 * @param {string} [what] what it is of, where that is not the text
 */
function codeOf(code, what = "") {
  /** @type {[string, string][]} */
  const kinds = [
    ["Program", code.program],
    ["Rust", code.rust],
    ["Python", code.python],
    ["curl", code.curl],
  ];
  const shown = kinds.flatMap(([title, text]) => [h("h3", {}, title + what), copyable(title + what, text)]);
  return [...code.notes.map((note) => h("p", {}, note)), ...shown];
}

/** @param {() => Promise<void>} act */
async function telling(act) {
  try {
    await act();
  } catch (error) {
    notify(error instanceof Error ? error.message : String(error));
  }
}
