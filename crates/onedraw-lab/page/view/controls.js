// The controls of all parameters, in their groups.

import { short } from "../model/figures.js";
import { PLAIN, withParam } from "../model/state.js";
import { control } from "./control.js";
import { button, h } from "./dom.js";
import { OrderView } from "./order.js";

/** @typedef {import("../lab.js").Lab} Lab */
/** @typedef {import("../engine/contract.js").Parameter} Parameter */
/** @typedef {import("../engine/contract.js").Params} Params */
/** @typedef {import("./control.js").Control} Control */

/** These have their place beside the prompt. */
const ELSEWHERE = ["seed", "max_tokens", "order"];
/** The preset that sets nothing. */
const OWN = "the model's own";
/** So many groups are open at first. */
const OPEN = 2;

export class ControlsView {
  #lab;
  /** @type {Map<string, Control>} */
  #controls = new Map();
  /** @type {{ summary: HTMLElement, title: string, names: string[] }[]} */
  #groups = [];
  #sides = h("fieldset", { class: "sides-switch", hidden: true }, h("legend", {}, "These are the parameters of"));
  #preset = h("select", { id: "preset" });

  /**
   * @param {Lab} lab
   * @param {HTMLElement} root
   */
  constructor(lab, root) {
    this.#lab = lab;
    this.#makePresets();
    this.#makeSides();
    const reset = button("Plain softmax", () => this.#apply("Plain softmax", PLAIN), {
      id: "plain",
      title: "No stage but temperature 1",
    });
    root.append(
      h("h2", {}, "Parameters"),
      this.#sides,
      h("div", { class: "row" }, h("label", { for: "preset" }, "Preset"), this.#preset, reset),
    );
    const parameters = lab.about.parameters.filter(({ name }) => !ELSEWHERE.includes(name));
    for (const title of new Set(parameters.map(({ group }) => group))) {
      root.append(
        this.#group(
          title,
          parameters.filter(({ group }) => group === title),
        ),
      );
    }
    root.append(new OrderView(lab).element);
    for (const event of /** @type {const} */ (["state", "selected"])) lab.on(event, () => this.#render());
    for (const event of /** @type {const} */ (["text", "look"])) lab.on(event, () => this.#blame());
    this.#render();
  }

  #makePresets() {
    this.#preset.append(h("option", { value: "" }, "choose…"), h("option", { value: OWN }, OWN));
    for (const name of Object.keys(this.#lab.about.presets)) this.#preset.append(h("option", { value: name }, name));
    this.#preset.addEventListener("change", () => {
      const preset = this.#preset.value === OWN ? {} : this.#lab.about.presets[this.#preset.value];
      if (preset !== undefined) this.#apply(`Preset ${this.#preset.value}`, preset);
      this.#preset.value = "";
    });
  }

  #makeSides() {
    for (const [side, label] of /** @type {const} */ ([
      ["main", "A"],
      ["beside", "B"],
    ])) {
      const radio = h("input", { type: "radio", name: "side", value: side, id: `side-${side}` });
      radio.addEventListener("change", () => this.#lab.select(side, this.#lab.selected.position));
      this.#sides.append(radio, h("label", { for: `side-${side}` }, `Setting ${label}`));
    }
  }

  /**
   * @param {string} title
   * @param {Parameter[]} parameters
   */
  #group(title, parameters) {
    const summary = h("summary", {}, title);
    const details = h("details", { open: this.#groups.length < OPEN }, summary);
    for (const parameter of parameters) {
      const { name } = parameter;
      const made = control(
        parameter,
        (value) => this.#lab.preview(this.#lab.settingWith(name, value)),
        (value) => this.#lab.apply(`${name} ${told(value)}`, this.#lab.settingWith(name, value)),
      );
      this.#controls.set(name, made);
      details.append(made.element);
    }
    this.#groups.push({ summary, title, names: parameters.map(({ name }) => name) });
    return details;
  }

  /**
   * Takes other parameters for all but seed and length.
   * @param {string} change
   * @param {Params} params
   */
  #apply(change, params) {
    const { about, setting, state } = this.#lab;
    const { seed, max_tokens } = state.params;
    /** @type {Params} */
    let all = { seed, max_tokens };
    for (const parameter of about.parameters) {
      if (parameter.name in params) all = withParam(all, parameter, params[parameter.name]);
    }
    this.#lab.apply(change, { params: all, order: setting.order });
  }

  #render() {
    const { params } = this.#lab.setting;
    for (const [name, { show }] of this.#controls) show(params[name]);
    for (const { summary, title, names } of this.#groups) {
      const count = names.filter((name) => name in params).length;
      summary.replaceChildren(title, count === 0 ? "" : h("span", { class: "count" }, `${count} set`));
    }
    this.#sides.hidden = this.#lab.state.beside === null;
    for (const radio of this.#sides.querySelectorAll("input")) radio.checked = radio.value === this.#lab.selected.side;
  }

  /** Shows an error beside the control that it is about. */
  #blame() {
    const failure = this.#lab.lookFailure ?? this.#lab.run.failure ?? this.#lab.besideRun?.failure ?? null;
    const field = failure?.field?.split(/[.[]/)[0];
    for (const [name, { blame }] of this.#controls) blame(name === field && failure !== null ? failure.message : null);
  }
}

/** @param {unknown} value */
function told(value) {
  if (typeof value === "number") return short(value);
  if (value === null) return "unset";
  return typeof value === "object" ? "changed" : String(value);
}
