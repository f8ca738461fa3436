// A text, token by token. A token can be hovered, tapped, and reached by the arrow keys.

import { isHeld } from "../model/facts.js";
import { percent, spoken } from "../model/figures.js";
import { stepOf } from "../model/scale.js";
import { h, set } from "./dom.js";

/** @typedef {import("../lab.js").Lab} Lab */
/** @typedef {import("../engine/contract.js").Token} Token */
/** @typedef {import("../model/scale.js").Measure} Measure */
/** @typedef {import("../model/state.js").Side} Side */

/** How long a pointer rests on a token before its card opens, in milliseconds. */
const REST = 100;

export class TextView {
  element;
  #lab;
  #side;
  #card;
  #prompt = h("span", { class: "asked" });
  #list;
  /** @type {HTMLElement[]} */
  #spans = [];
  /** What is shown of each token, to leave alone what stays the same. @type {string[]} */
  #shown = [];
  #measure = /** @type {() => Measure} */ (() => "probability");

  /**
   * @param {Lab} lab
   * @param {Side} side
   * @param {import("./card.js").Card} card
   * @param {() => Measure} measure
   */
  constructor(lab, side, card, measure) {
    this.#lab = lab;
    this.#side = side;
    this.#card = card;
    this.#measure = measure;
    const label = side === "main" ? "The text, token by token" : "The text of setting B, token by token";
    this.#list = h("span", {
      role: "listbox",
      tabindex: "0",
      "aria-label": label,
      id: `text-${side}`,
      class: "tokens",
    });
    this.element = h("div", { class: "text" }, this.#prompt, this.#list);
    this.#listen();
  }

  /**
   * Shows what is written.
   * @param {number | null} parting where the text parts from the one beside it
   */
  render(parting) {
    const run = this.#side === "main" ? this.#lab.run : this.#lab.besideRun;
    if (run === null) return;
    this.#prompt.textContent = run.question.prompt;
    set(this.#list, { "aria-busy": run.status === "writing" ? "true" : "false", "data-status": run.status });
    // The token that ends a text is none of its words.
    const ending = run.finish === "eos" ? run.tokens.length - 1 : null;
    run.tokens.forEach((token, index) => this.#renderToken(token, index, parting, index === ending));
    const isWhole = run.status === "done" || run.status === "stopped";
    for (let index = run.tokens.length; index < this.#spans.length; index++) {
      // What was there before fades until new tokens take its place. Where that fails, it stays.
      const span = this.#spans[index];
      if (span !== undefined) set(span, { class: "token stale", "aria-hidden": "true" });
      this.#shown[index] = "";
    }
    if (isWhole) {
      for (const span of this.#spans.splice(run.tokens.length)) span.remove();
      this.#shown.length = run.tokens.length;
    }
    const { side, position } = this.#lab.selected;
    const isHere = side === this.#side && position < run.tokens.length;
    set(this.#list, { "aria-activedescendant": isHere ? `${this.#side}-${position}` : null });
  }

  /**
   * @param {Token} token
   * @param {number} index
   * @param {number | null} parting
   * @param {boolean} isEnding
   */
  #renderToken(token, index, parting, isEnding) {
    const { side, position } = this.#lab.selected;
    const isSelected = side === this.#side && position === index;
    const classes = ["token", `step-${stepOf(this.#measure(), token)}`];
    if (isSelected) classes.push("selected");
    if (isHeld(token)) classes.push("forced");
    if (parting === index) classes.push("parts");
    if (isEnding) classes.push("ending");
    const className = classes.join(" ");
    const shown = `${token.id} ${token.probability} ${className}`;
    if (this.#shown[index] === shown) return;
    this.#shown[index] = shown;
    const span = this.#spans[index] ?? this.#newSpan(index);
    span.textContent = token.text;
    const parts = parting === index ? "; the texts part here" : "";
    const odds = token.probability === null ? "the only choice" : percent(token.probability);
    const label = `${spoken(token.text)}, ${odds}${isHeld(token) ? ", held" : ""}${parts}`;
    set(span, {
      class: className,
      "data-token": token.id,
      "aria-selected": String(isSelected),
      "aria-label": label,
      "aria-hidden": null,
    });
  }

  /** @param {number} index */
  #newSpan(index) {
    const span = h("span", { role: "option", id: `${this.#side}-${index}`, "data-position": index });
    this.#spans[index] = span;
    this.#list.append(span);
    return span;
  }

  #listen() {
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let rest;
    this.#list.addEventListener("click", (event) => {
      const position = positionOf(event.target);
      if (position !== null) this.#lab.select(this.#side, position);
    });
    this.#list.addEventListener("pointerover", (event) => {
      clearTimeout(rest);
      const position = positionOf(event.target);
      if (event.pointerType !== "mouse" || position === null) return;
      const span = this.#spans[position];
      rest = setTimeout(() => span !== undefined && this.#card.open(this.#side, position, span), REST);
    });
    this.#list.addEventListener("pointerout", () => {
      clearTimeout(rest);
      this.#card.close();
    });
    this.#list.addEventListener("keydown", (event) => {
      const position = this.#reached(event.key);
      if (position === null) return;
      event.preventDefault();
      this.#lab.select(this.#side, position);
      this.#spans[position]?.scrollIntoView({ block: "nearest" });
    });
  }

  /**
   * The position that a key leads to from the selected one.
   * @param {string} key
   * @returns {number | null}
   */
  #reached(key) {
    const last = this.#spans.length - 1;
    if (last < 0) return null;
    const { side, position } = this.#lab.selected;
    const from = side === this.#side ? position : 0;
    switch (key) {
      case "ArrowRight":
        return Math.min(last, from + 1);
      case "ArrowLeft":
        return Math.max(0, from - 1);
      case "Home":
        return 0;
      case "End":
        return last;
      case "ArrowDown":
        return this.#onLine(from, 1);
      case "ArrowUp":
        return this.#onLine(from, -1);
      default:
        return null;
    }
  }

  /**
   * The token above or below.
   * @param {number} from
   * @param {1 | -1} step
   */
  #onLine(from, step) {
    const start = this.#spans[from]?.getBoundingClientRect();
    if (start === undefined) return from;
    /** @type {number | null} */
    let line = null;
    let best = from;
    for (let index = from + step; index >= 0 && index < this.#spans.length; index += step) {
      const box = /** @type {HTMLElement} */ (this.#spans[index]).getBoundingClientRect();
      if (Math.abs(box.bottom - start.bottom) < start.height / 2) continue;
      line ??= box.bottom;
      if (Math.abs(box.bottom - line) > start.height / 2) break;
      const known = /** @type {HTMLElement} */ (this.#spans[best]).getBoundingClientRect();
      if (best === from || Math.abs(box.left - start.left) < Math.abs(known.left - start.left)) best = index;
    }
    return best;
  }
}

/**
 * The position of the token that an event is about.
 * @param {EventTarget | null} target
 * @returns {number | null}
 */
function positionOf(target) {
  const position = target instanceof HTMLElement ? target.dataset.position : undefined;
  return position === undefined ? null : Number(position);
}
