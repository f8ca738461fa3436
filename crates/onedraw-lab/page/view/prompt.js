// The prompt, the seed and the length, and what is done with them.

import { FIRST_PROMPT } from "../model/state.js";
import { button, h } from "./dom.js";

/** @typedef {import("../lab.js").Lab} Lab */

/** Prompts to begin with. */
const EXAMPLES = [FIRST_PROMPT, "Tom saw a big", "The dragon was sad because"];
/** The longest text that is asked for here. */
const LONGEST = 1000;

export class PromptView {
  #lab;
  #prompt = h("textarea", { id: "prompt-field", rows: 2, spellcheck: "false" });
  #seed = h("input", { id: "seed", inputmode: "numeric", autocomplete: "off", size: 12 });
  #length = h("input", { id: "length", type: "number", min: 1, max: LONGEST, step: 1 });
  #write = button("Write", () => this.#writeOrStop(), { class: "main", id: "write" });

  /**
   * @param {Lab} lab
   * @param {HTMLElement} root
   */
  constructor(lab, root) {
    this.#lab = lab;
    const roll = button("Re-roll", () => this.#setSeed(String(crypto.getRandomValues(new Uint32Array(1))[0])), {
      id: "roll",
    });
    const examples = EXAMPLES.map((prompt) => button(prompt, () => this.#setPrompt(prompt), { class: "example" }));
    root.append(
      h("label", { for: "prompt-field" }, "Prompt"),
      this.#prompt,
      h("div", { class: "row examples" }, h("span", { class: "quiet" }, "Or try"), ...examples),
      h(
        "div",
        { class: "row" },
        this.#write,
        h("label", { for: "seed" }, "Seed"),
        this.#seed,
        roll,
        h("label", { for: "length" }, "Tokens"),
        this.#length,
      ),
    );
    this.#prompt.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey) return;
      event.preventDefault();
      this.#setPrompt(this.#prompt.value);
    });
    this.#seed.addEventListener("change", () => this.#setSeed(this.#seed.value.trim()));
    this.#length.addEventListener("change", () => this.#setLength(this.#length.valueAsNumber));
    lab.on("state", () => this.#renderState());
    lab.on("text", () => this.#renderButton());
    this.#renderState();
    this.#renderButton();
  }

  #renderState() {
    const { prompt, params } = this.#lab.state;
    this.#prompt.value = prompt;
    this.#seed.value = String(params.seed ?? "");
    this.#length.value = String(params.max_tokens ?? "");
  }

  #renderButton() {
    this.#write.textContent = this.#isWriting ? "Stop" : "Write";
  }

  get #isWriting() {
    return this.#lab.run.status === "writing" || this.#lab.besideRun?.status === "writing";
  }

  #writeOrStop() {
    if (this.#isWriting && this.#prompt.value === this.#lab.state.prompt) this.#lab.stop();
    else this.#setPrompt(this.#prompt.value);
  }

  /** @param {string} prompt */
  #setPrompt(prompt) {
    if (prompt === this.#lab.state.prompt) {
      this.#lab.again();
      return;
    }
    this.#lab.select("main", 0);
    this.#lab.change(`Prompt “${prompt.length > 24 ? `${prompt.slice(0, 24)}…` : prompt}”`, { prompt, forced: [] });
  }

  /** @param {string} seed */
  #setSeed(seed) {
    const params = { ...this.#lab.state.params, seed };
    this.#lab.change(`Seed ${seed}`, { params, forced: [] });
  }

  /** @param {number} length */
  #setLength(length) {
    const max_tokens = Math.max(1, Math.min(LONGEST, Math.round(length) || 1));
    const params = { ...this.#lab.state.params, max_tokens };
    this.#lab.change(`${max_tokens} tokens`, { params }, this.#lab.run.tokens.length);
  }
}
