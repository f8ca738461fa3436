// The branches: every state that the reader was in, as a tree to walk through.

import { textOf } from "../model/runs.js";
import { h, set } from "./dom.js";

/** @typedef {import("../lab.js").Lab} Lab */
/** @typedef {import("../model/history.js").Visit} Visit */

/** So much of a text is shown, from where the branch begins. */
const SHOWN = 60;

export class TreeView {
  element = h("ul", { role: "tree", "aria-label": "Branches", class: "tree" });
  #lab;
  /** What each visit wrote, as far as it was seen. @type {Map<number, string>} */
  #texts = new Map();

  /** @param {Lab} lab */
  constructor(lab) {
    this.#lab = lab;
    lab.on("state", () => this.#render());
    lab.on("text", () => this.#renderText());
    this.element.addEventListener("keydown", (event) => this.#walk(event));
    this.element.addEventListener("click", (event) => {
      const id = idOf(event.target);
      if (id !== null) lab.goTo(id);
    });
    this.#render();
  }

  #render() {
    const hadFocus = this.element.contains(document.activeElement);
    const { history } = this.#lab;
    const known = new Set(history.visits.map(({ id }) => id));
    for (const id of this.#texts.keys()) if (!known.has(id)) this.#texts.delete(id);
    this.element.replaceChildren(
      ...this.#items(
        history.visits.filter(({ parent }) => parent === null || !known.has(parent)),
        1,
      ),
    );
    this.#renderText();
    if (hadFocus) /** @type {HTMLElement | null} */ (this.element.querySelector('[tabindex="0"]'))?.focus();
  }

  /**
   * The items of some visits, each followed by what branched from it. A chain of single children stays at one depth.
   * @param {Visit[]} visits
   * @param {number} level
   * @returns {HTMLElement[]}
   */
  #items(visits, level) {
    return visits.flatMap((visit) => {
      const children = this.#lab.history.children(visit.id);
      const deeper = children.length > 1 ? level + 1 : level;
      return [this.#item(visit, level), ...this.#items(children, deeper)];
    });
  }

  /**
   * @param {Visit} visit
   * @param {number} level
   */
  #item(visit, level) {
    const isHere = visit === this.#lab.history.current;
    const item = h("li", {
      role: "treeitem",
      "aria-level": level,
      "aria-selected": String(isHere),
      tabindex: isHere ? "0" : "-1",
      "data-visit": visit.id,
    });
    item.style.setProperty("--level", String(level - 1));
    item.append(h("b", {}, visit.change), " ", h("span", { class: "quiet" }, this.#texts.get(visit.id) ?? ""));
    return item;
  }

  /** Notes what the present state writes, from where it differs. */
  #renderText() {
    const { run, history } = this.#lab;
    const { id, since } = history.current;
    const text = textOf({ ...run, tokens: run.tokens.slice(since) }).replaceAll("\n", " ");
    this.#texts.set(id, text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text);
    const shown = this.element.querySelector(`[data-visit="${id}"] span`);
    if (shown !== null) shown.textContent = this.#texts.get(id) ?? "";
  }

  /** @param {KeyboardEvent} event */
  #walk(event) {
    const items = /** @type {HTMLElement[]} */ ([...this.element.children]);
    const at = items.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const steps = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 };
    const to = steps[/** @type {keyof typeof steps} */ (event.key)];
    const next = to === undefined ? undefined : items[to];
    if (next !== undefined) {
      event.preventDefault();
      for (const item of items) set(item, { tabindex: item === next ? "0" : "-1" });
      next.focus();
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      const id = idOf(event.target);
      if (id !== null) this.#lab.goTo(id);
    }
  }
}

/**
 * The visit that an event is about.
 * @param {EventTarget | null} target
 * @returns {number | null}
 */
function idOf(target) {
  const item = target instanceof Element ? target.closest("[data-visit]") : null;
  return item instanceof HTMLElement ? Number(item.dataset.visit) : null;
}
