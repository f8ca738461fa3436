// What the colours of the tokens mean, and the choice of the measure.

import { SCALES } from "../model/scale.js";
import { h } from "./dom.js";

/** @typedef {import("../model/scale.js").Measure} Measure */

export class Legend {
  element = h("div", { class: "legend" });
  /** @type {Measure} */
  measure = "probability";
  #key = h("ul", { class: "steps" });

  /** @param {() => void} changed */
  constructor(changed) {
    const choice = h("select", { id: "measure" });
    for (const [measure, { title }] of Object.entries(SCALES)) choice.append(h("option", { value: measure }, title));
    choice.addEventListener("change", () => {
      this.measure = /** @type {Measure} */ (choice.value);
      this.#render();
      changed();
    });
    this.element.append(h("label", { for: "measure" }, "Colour by"), choice, this.#key);
    this.#render();
  }

  #render() {
    const { labels, sentence } = SCALES[this.measure];
    this.#key.replaceChildren(...labels.map((label, step) => h("li", { class: `step-${step}` }, label)));
    this.#key.title = sentence;
  }
}
