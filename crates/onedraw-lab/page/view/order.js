// The order of the stages, changed by dragging or by the arrow keys.

import { isSame, kept, moved } from "../model/order.js";
import { button, h, set } from "./dom.js";

/** @typedef {import("../lab.js").Lab} Lab */

export class OrderView {
  element;
  #lab;
  #list = h("ol", { class: "order" });
  #choice = h("select", { id: "order-choice" });
  #idle = h("input", { type: "checkbox", id: "idle" });
  #said = h("p", { class: "visually-hidden", role: "status" });

  #isDragged = false;

  /** @param {Lab} lab */
  constructor(lab) {
    this.#lab = lab;
    for (const name of Object.keys(lab.about.orders)) this.#choice.append(h("option", { value: name }, name));
    this.#choice.append(h("option", { value: "own", disabled: true }, "your own"));
    this.#choice.addEventListener("change", () => {
      const order = lab.about.orders[this.#choice.value];
      if (order !== undefined) this.#apply(`Order of ${this.#choice.value}`, order);
    });
    this.#idle.addEventListener("change", () => this.#render());
    this.element = h(
      "details",
      { open: true, class: "order-box" },
      h("summary", {}, "The order of the stages"),
      h(
        "p",
        { class: "help", id: "order-help" },
        "Drag a stage, or move it with the arrow keys. The first is applied first.",
      ),
      h("div", { class: "row" }, h("label", { for: "order-choice" }, "Order of"), this.#choice),
      this.#list,
      h("div", { class: "row" }, this.#idle, h("label", { for: "idle" }, "Show stages that do nothing now")),
      this.#said,
    );
    for (const event of /** @type {const} */ (["state", "selected", "look"])) lab.on(event, () => this.#render());
    this.#render();
  }

  get #order() {
    return this.#lab.setting.order ?? this.#lab.about.order;
  }

  #render() {
    if (this.#isDragged) return;
    const { about, look } = this.#lab;
    // A draw that is looked at has no stage that its parameters leave idle.
    const working = new Set(look?.stages.map(({ stage }) => stage));
    const visible = this.#order.filter((stage) => this.#idle.checked || working.has(stage));
    const focused = document.activeElement instanceof HTMLElement ? document.activeElement.dataset.stage : undefined;
    this.#list.replaceChildren(...visible.map((stage, index) => this.#item(stage, index, visible, working.has(stage))));
    if (visible.length === 0) this.#list.append(h("li", { class: "quiet" }, "No stage does anything to this draw."));
    const name = Object.entries(about.orders).find(([, order]) => isSame(order, this.#order))?.[0];
    this.#choice.value = name ?? "own";
    for (const handle of this.#list.querySelectorAll("button")) if (handle.dataset.stage === focused) handle.focus();
  }

  /**
   * @param {string} stage
   * @param {number} index
   * @param {string[]} visible
   * @param {boolean} isWorking
   */
  #item(stage, index, visible, isWorking) {
    const label = `${stage}, ${index + 1} of ${visible.length}; move with the arrow keys`;
    const handle = button(stage, () => {}, {
      class: "handle",
      "aria-label": label,
      "aria-describedby": "order-help",
      "data-stage": stage,
    });
    const item = h("li", { class: isWorking ? null : "idle" }, handle);
    handle.addEventListener("keydown", (event) => {
      const step = event.key === "ArrowUp" ? -1 : event.key === "ArrowDown" ? 1 : 0;
      const to = index + step;
      if (step === 0) return;
      event.preventDefault();
      if (to < 0 || to >= visible.length) return;
      this.#move(stage, visible.filter((other) => other !== stage)[to] ?? null);
      this.#said.textContent = `${stage} is now ${to + 1} of ${visible.length}`;
    });
    handle.addEventListener("pointerdown", (event) => this.#drag(event, item, stage));
    return item;
  }

  /**
   * @param {PointerEvent} down
   * @param {HTMLElement} item
   * @param {string} stage
   */
  #drag(down, item, stage) {
    if (down.button !== 0) return;
    const ended = new AbortController();
    const { signal } = ended;
    // The handle moves in the page, and what moves loses a captured pointer.
    document.addEventListener(
      "pointermove",
      (move) => {
        if (move.pointerId !== down.pointerId) return;
        set(item, { class: "dragged" });
        const others = [...this.#list.children].filter((other) => other !== item);
        const next = others.find((other) => middle(other) > move.clientY) ?? null;
        if (next === item.nextElementSibling) return;
        this.#isDragged = true;
        this.#list.insertBefore(item, next);
        this.#lab.preview({ params: this.#lab.setting.params, order: this.#movedBefore(stage, stageOf(next)) });
      },
      { signal },
    );
    const end = () => {
      ended.abort();
      if (!this.#isDragged) return;
      this.#isDragged = false;
      this.#move(stage, stageOf(item.nextElementSibling));
    };
    document.addEventListener("pointerup", end, { signal });
    document.addEventListener("pointercancel", end, { signal });
  }

  /**
   * @param {string} stage
   * @param {string | null} before
   */
  #movedBefore(stage, before) {
    return kept(moved(this.#order, stage, before), this.#lab.about.order);
  }

  /**
   * @param {string} stage
   * @param {string | null} before a stage that is shown; null for the end
   */
  #move(stage, before) {
    this.#apply(`${stage} ${before === null ? "last" : `before ${before}`}`, moved(this.#order, stage, before));
  }

  /**
   * @param {string} change
   * @param {string[]} order
   */
  #apply(change, order) {
    this.#lab.apply(change, { params: this.#lab.setting.params, order: kept(order, this.#lab.about.order) });
    this.#render();
  }
}

/** @param {Element} element */
function middle(element) {
  const { top, height } = element.getBoundingClientRect();
  return top + height / 2;
}

/** @param {Element | null} item @returns {string | null} */
function stageOf(item) {
  return item?.querySelector("button")?.dataset.stage ?? null;
}
