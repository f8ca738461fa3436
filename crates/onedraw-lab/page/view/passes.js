// Speculation made visible: what was guessed in each pass, and what of it was accepted.

import { spoken, visible } from "../model/figures.js";
import { h } from "./dom.js";

/** @typedef {import("../lab.js").Lab} Lab */
/** @typedef {import("../engine/contract.js").Pass} Pass */

export class PassesView {
  element;
  #lab;
  #choice = h("select", { id: "draft" });
  #sentence = h("p", { class: "help" });
  #sum = h("p", { role: "status" });
  #list = h("ol", { class: "passes", "aria-label": "Passes", tabindex: "0" });
  /** How many passes of which text are shown. */
  #shown = { run: /** @type {object | null} */ (null), passes: 0 };

  /** @param {Lab} lab */
  constructor(lab) {
    this.#lab = lab;
    this.#choice.append(h("option", { value: "" }, "none"));
    for (const { name } of lab.about.drafters) this.#choice.append(h("option", { value: name }, name));
    this.#choice.addEventListener("change", () => {
      const draft = this.#choice.value || null;
      lab.change(draft === null ? "No drafter" : `Drafter ${draft}`, { draft }, lab.run.tokens.length);
    });
    this.element = h(
      "details",
      { id: "guesses" },
      h("summary", {}, "Guesses: speculation, pass by pass"),
      h(
        "p",
        { class: "help" },
        "A drafter guesses some tokens ahead, and the model checks all of them in one pass. The text is the same with and without it.",
      ),
      h("div", { class: "row" }, h("label", { for: "draft" }, "Drafter"), this.#choice),
      this.#sentence,
      this.#sum,
      this.#list,
    );
    for (const event of /** @type {const} */ (["state", "text"])) lab.on(event, () => this.#render());
    this.#render();
  }

  #render() {
    const { run, state, about } = this.#lab;
    this.#choice.value = state.draft ?? "";
    this.#sentence.textContent = about.drafters.find(({ name }) => name === state.draft)?.sentence ?? "";
    this.#list.hidden = run.passes.length === 0;
    if (this.#shown.run !== run) {
      this.#list.replaceChildren();
      this.#shown = { run, passes: 0 };
    }
    for (const pass of run.passes.slice(this.#shown.passes)) this.#list.append(passItem(pass));
    this.#shown.passes = run.passes.length;
    const guesses = run.passes.flatMap((pass) => pass.guesses);
    const accepted = guesses.filter((guess) => guess.accepted).length;
    this.#sum.textContent =
      guesses.length === 0
        ? ""
        : `${accepted} of ${guesses.length} guesses were accepted, in ${run.passes.length} passes.`;
  }
}

/** @param {Pass} pass */
function passItem({ position, guesses }) {
  const pieces = guesses.map(({ text, accepted }) =>
    h(
      "span",
      { class: accepted ? "guess accepted" : "guess rejected" },
      h("span", { "aria-hidden": "true" }, accepted ? "✓ " : "✗ "),
      h("span", { class: "visually-hidden" }, `${spoken(text)} ${accepted ? "accepted" : "rejected"}`),
      h("span", { class: "piece", "aria-hidden": "true" }, visible(text)),
    ),
  );
  return h("li", {}, h("span", { class: "quiet at" }, `at ${position + 1}`), ...pieces);
}
