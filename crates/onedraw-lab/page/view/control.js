// The control of one parameter.

import { read, shown } from "../model/lists.js";
import { h, place, set } from "./dom.js";

/** @typedef {import("../engine/contract.js").Parameter} Parameter */

/**
 * @typedef {object} Control
 * @property {HTMLElement} element
 * @property {(value: unknown) => void} show shows a value, the default where it is undefined
 * @property {(message: string | null) => void} blame says what is wrong with the value
 */

/**
 * @param {Parameter} parameter
 * @param {(value: unknown) => void} preview is called while the control is moved
 * @param {(value: unknown) => void} apply is called when the reader has decided
 * @returns {Control}
 */
export function control(parameter, preview, apply) {
  const { name, sentence } = parameter;
  const help = h("p", { id: `help-${name}`, class: "help" }, sentence);
  const wrong = h("p", { id: `wrong-${name}`, class: "blame", role: "alert" });
  const field = fieldOf(parameter, preview, apply, (message) => (wrong.textContent = message));
  for (const input of field.inputs) set(input, { "aria-describedby": `help-${name} wrong-${name}` });
  const label = h("label", { for: `param-${name}` }, name);
  const element = h(
    "div",
    { class: `control ${parameter.kind}`, "data-name": name },
    label,
    ...field.inputs,
    help,
    wrong,
  );
  return {
    element,
    show: (value) => {
      element.classList.toggle("set", value !== undefined);
      field.show(value ?? parameter.default);
    },
    blame: (message) => {
      wrong.textContent = message ?? "";
      set(/** @type {HTMLElement} */ (field.inputs[0]), { "aria-invalid": message === null ? null : "true" });
    },
  };
}

/**
 * @param {Parameter} parameter
 * @param {(value: unknown) => void} preview
 * @param {(value: unknown) => void} apply
 * @param {(message: string) => void} blame
 * @returns {{ inputs: HTMLElement[], show: (value: any) => void }}
 */
function fieldOf(parameter, preview, apply, blame) {
  const id = `param-${parameter.name}`;
  switch (parameter.kind) {
    case "flag": {
      const box = h("input", { id, type: "checkbox" });
      box.addEventListener("change", () => apply(box.checked));
      return { inputs: [box], show: (value) => (box.checked = value === true) };
    }
    case "choice": {
      const choices = parameter.choices ?? [];
      const options = choices.map((choice, index) => h("option", { value: index }, String(choice)));
      const select = h("select", { id }, ...options);
      select.addEventListener("change", () => apply(choices[select.selectedIndex]));
      return { inputs: [select], show: (value) => (select.selectedIndex = choices.indexOf(value)) };
    }
    case "list":
    case "text": {
      const area = h("textarea", { id, rows: 1, spellcheck: "false", placeholder: "none" });
      area.addEventListener("change", () => {
        try {
          apply(parameter.kind === "text" ? area.value || null : read(area.value));
        } catch {
          blame("This does not read as JSON. Numbers have commas between them; strings stand on a line each.");
        }
      });
      return { inputs: [area], show: (value) => (area.value = typeof value === "string" ? value : shown(value)) };
    }
    default:
      return numberField(parameter, id, preview, apply);
  }
}

/**
 * A number, with a slider where it has a range.
 * @param {Parameter} parameter
 * @param {string} id
 * @param {(value: unknown) => void} preview
 * @param {(value: unknown) => void} apply
 */
function numberField(parameter, id, preview, apply) {
  const { least, most, step, name } = parameter;
  const number = h("input", { id, type: "number", step: "any" });
  number.addEventListener("change", () => apply(number.value === "" ? null : number.valueAsNumber));
  /** @type {HTMLElement[]} */
  const inputs = [number];
  /** @type {HTMLInputElement | null} */
  let slider = null;
  if (typeof least === "number" && typeof most === "number") {
    const range = h("input", {
      type: "range",
      min: least,
      max: most,
      step: step ?? (most - least) / 100,
      "aria-label": `${name}, slider`,
    });
    range.addEventListener("input", () => {
      number.value = range.value;
      preview(range.valueAsNumber);
    });
    range.addEventListener("change", () => apply(range.valueAsNumber));
    range.addEventListener("pointerdown", () => setMoving(true));
    for (const end of ["pointerup", "pointercancel"]) range.addEventListener(end, () => setMoving(false));
    inputs.push(range);
    slider = range;
  }
  return {
    inputs,
    show: (/** @type {any} */ value) => {
      number.value = typeof value === "number" ? String(value) : "";
      if (slider !== null) slider.value = typeof value === "number" ? String(value) : String(least);
    },
  };
}

/** Tells the style sheet that a slider is held. @param {boolean} isMoving */
function setMoving(isMoving) {
  const draw = place("draw");
  // Its height stays while the bars are over the page, so that the slider stays under the finger.
  draw.style.minHeight = isMoving ? `${draw.offsetHeight}px` : "";
  document.body.classList.toggle("moving", isMoving);
}
