// The text, or two of them side by side, with what there is to say about them.

import { megabytes } from "../model/figures.js";
import { parting } from "../model/parting.js";
import { Card } from "./card.js";
import { button, h } from "./dom.js";
import { Legend } from "./legend.js";
import { clearWrong, notify } from "./notices.js";
import { TextView } from "./text.js";

/** @typedef {import("../lab.js").Lab} Lab */
/** @typedef {import("../engine/contract.js").Failure} Failure */
/** @typedef {import("../model/runs.js").Run} Run */

export class TextsView {
  #lab;
  #legend = new Legend(() => this.#render());
  #main;
  #beside;
  #besideBox;
  #grid;
  #note = h("p", { class: "note", role: "status" });
  #held = h("p", { class: "held", hidden: true });
  /** @type {Failure | null} */
  #told = null;

  /**
   * @param {Lab} lab
   * @param {HTMLElement} root
   */
  constructor(lab, root) {
    this.#lab = lab;
    const card = new Card(lab);
    this.#main = new TextView(lab, "main", card, () => this.#legend.measure);
    this.#beside = new TextView(lab, "beside", card, () => this.#legend.measure);
    this.#besideBox = h("div", { class: "side" }, h("h3", {}, "Setting B"), this.#beside.element);
    this.#grid = h(
      "div",
      { class: "sides" },
      h("div", { class: "side" }, h("h3", {}, "Setting A"), this.#main.element),
      this.#besideBox,
    );
    root.append(this.#legend.element, this.#grid, this.#held, this.#note);
    for (const event of /** @type {const} */ (["state", "text", "selected"])) lab.on(event, () => this.#render());
    this.#render();
  }

  #render() {
    const { run, besideRun, state } = this.#lab;
    const isBeside = besideRun !== null;
    const areWhole = isBeside && run.status !== "writing" && besideRun.status !== "writing";
    const part = isBeside ? parting(run.tokens, besideRun.tokens, areWhole) : null;
    this.#grid.classList.toggle("two", isBeside);
    this.#besideBox.hidden = !isBeside;
    this.#main.render(part);
    this.#beside.render(part);
    this.#note.textContent = isBeside ? compared(part, areWhole) : ended(run);
    this.#renderHeld(state.forced.length);
    this.#tellFailure(run.failure ?? besideRun?.failure ?? null);
  }

  /** @param {number} held */
  #renderHeld(held) {
    this.#held.hidden = held === 0;
    if (held === 0) return;
    const free = button("Draw all anew", () => this.#lab.change("All drawn anew", { forced: [] }), { id: "free" });
    this.#held.replaceChildren(
      held === 1 ? "One token is held (underlined), not drawn. " : `${held} tokens are held (underlined), not drawn. `,
      free,
    );
  }

  /** @param {Failure | null} failure */
  #tellFailure(failure) {
    if (failure === this.#told) return;
    this.#told = failure;
    clearWrong();
    if (failure !== null) notify(failure.message, "wrong", { label: "Try again", act: () => this.#lab.again() });
  }
}

/** @param {Run} run */
function ended(run) {
  const length = run.tokens.length;
  if (run.loading !== null) return loading(run.loading);
  if (run.status === "writing") return "Writing…";
  if (run.status === "stopped") return `Stopped after ${length} tokens.`;
  if (run.status === "failed") return `${length} tokens were written.`;
  if (run.finish === "length") return `${length} tokens, as many as were asked for.`;
  if (run.finish === "eos") return `${length} tokens; the model ended the text.`;
  return `${length} tokens, ended by a stop.`;
}

/** @param {import("../engine/contract.js").Loading} loading */
function loading({ drafter, loaded, total }) {
  return `The drafter ${drafter} is loading: ${megabytes(loaded)} of ${megabytes(total)} MB`;
}

/**
 * @param {number | null} part
 * @param {boolean} areWhole
 */
function compared(part, areWhole) {
  if (part !== null) return `The texts part at token ${part + 1}.`;
  return areWhole ? "Both settings give the same text. Change a parameter of B." : "Writing…";
}
