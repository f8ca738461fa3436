// The card that opens where a pointer rests on a token: the draw in short.

import { inShort } from "../model/facts.js";
import { percent, visible } from "../model/figures.js";
import { rivals } from "../model/rivals.js";
import { bar } from "./bars.js";
import { h } from "./dom.js";

/** @typedef {import("../lab.js").Lab} Lab */
/** @typedef {import("../engine/contract.js").Look} Look */
/** @typedef {import("../engine/contract.js").Token} Token */
/** @typedef {import("../model/state.js").Side} Side */

/** How many rivals the card has. */
const LISTED = 6;

export class Card {
  #lab;
  #element = h("div", { class: "card", role: "tooltip", hidden: true });
  /** The token that the card is about. @type {HTMLElement | null} */
  #token = null;

  /** @param {Lab} lab */
  constructor(lab) {
    this.#lab = lab;
    document.body.append(this.#element);
    document.addEventListener("scroll", () => this.close(), { passive: true, capture: true });
  }

  /**
   * @param {Side} side
   * @param {number} position
   * @param {HTMLElement} token
   */
  open(side, position, token) {
    this.#token = token;
    this.#lab.glance(side, position, (look) => {
      if (this.#token !== token || look.position !== position) return;
      const run = side === "beside" ? this.#lab.besideRun : this.#lab.run;
      this.#render(look, run?.tokens[position]);
      this.#place(token);
    });
  }

  close() {
    this.#token = null;
    this.#element.hidden = true;
  }

  /**
   * @param {Look} look
   * @param {Token | undefined} own the token of the text
   */
  #render(look, own) {
    const found = rivals(look, 0, look.stages.length - 1, LISTED);
    const most = Math.max(...found.map((rival) => Math.max(rival.before ?? 0, rival.after ?? 0)), 1e-9);
    const rows = found.map((rival) =>
      h(
        "tr",
        { class: rival.id === look.token.id ? "drawn" : rival.gone !== null ? "gone" : null },
        h("td", { class: "piece" }, visible(rival.text)),
        h("td", {}, bar(rival.before, rival.after, most)),
        h("td", { class: "figure" }, rival.gone ?? (rival.after === null ? "–" : percent(rival.after))),
      ),
    );
    const last = look.stages.at(-1);
    const entropy = last === undefined ? "" : `, ${last.tokens} of ${look.stages[0]?.tokens} tokens left`;
    const { text, said } = inShort(own, look);
    const head = h("p", {}, h("b", { class: "piece" }, visible(text)), ` ${said}${entropy}`);
    this.#element.replaceChildren(head, h("table", {}, h("tbody", {}, ...rows)));
  }

  /** @param {HTMLElement} token */
  #place(token) {
    const box = token.getClientRects()[0];
    if (box === undefined) return;
    this.#element.hidden = false;
    const { width, height } = this.#element.getBoundingClientRect();
    const left = Math.max(8, Math.min(box.left, window.innerWidth - width - 8));
    const isBelow = box.bottom + height + 12 < window.innerHeight;
    this.#element.style.left = `${left}px`;
    this.#element.style.top = `${isBelow ? box.bottom + 6 : Math.max(8, box.top - height - 6)}px`;
  }
}
