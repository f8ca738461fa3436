// Beam search as a tree: what was compared, what was kept, what was found.

import { askOnce } from "../engine/contract.js";
import { pathTo, place } from "../model/forest.js";
import { short, visible } from "../model/figures.js";
import { button, h, svg } from "./dom.js";

/** @typedef {import("../lab.js").Lab} Lab */
/** @typedef {import("../engine/contract.js").Beams} Beams */

const COLUMN = 92;
const ROW = 20;

export class BeamsView {
  element;
  #lab;
  #width = h("input", { id: "beam-width", type: "number", min: 2, max: 8, value: 3 });
  #length = h("input", { id: "beam-length", type: "number", min: 1, max: 40, value: 8 });
  #result = h("div", { id: "beam-result" });

  /** @param {Lab} lab */
  constructor(lab) {
    this.#lab = lab;
    this.element = h(
      "details",
      { id: "beams" },
      h("summary", {}, "Beams: the most likely continuations"),
      h("p", { class: "help" }, "Beam search goes on with the few best texts at each token, and draws nothing."),
      h(
        "div",
        { class: "row" },
        h("label", { for: "beam-width" }, "Beams"),
        this.#width,
        h("label", { for: "beam-length" }, "Tokens"),
        this.#length,
        button("Search", () => this.#search(), { class: "main", id: "search" }),
      ),
      this.#result,
    );
  }

  async #search() {
    const { prompt, schema } = this.#lab.state;
    const params = { max_tokens: this.#length.valueAsNumber || 8 };
    const body = { prompt, params, schema, beams: { width: this.#width.valueAsNumber || 3 } };
    this.#lab.search = null;
    this.#result.replaceChildren(h("p", { role: "status" }, "Searching…"));
    try {
      const beams = /** @type {Beams} */ (await askOnce(this.#lab.engine, "beams", body));
      this.#render(beams, beams.found[0]?.node ?? null);
      this.#lab.search = body;
    } catch (error) {
      this.#result.replaceChildren(
        h("p", { class: "blame", role: "alert" }, error instanceof Error ? error.message : String(error)),
      );
    }
  }

  /**
   * @param {Beams} beams
   * @param {number | null} chosen the end of the path that is marked
   */
  #render(beams, chosen) {
    const path = chosen === null ? new Set() : pathTo(beams.nodes, chosen);
    const { placed, columns, rows } = place(beams.nodes);
    const at = new Map(placed.map((node) => [node.node, node]));
    const drawing = svg("svg", {
      class: "forest",
      width: columns * COLUMN + 10,
      height: rows * ROW + 10,
      role: "img",
      "aria-label": `A tree of ${placed.length} continuations; the texts found are listed below`,
    });
    for (const node of placed) {
      const [x, y] = [node.column * COLUMN + 6, node.row * ROW + 16];
      const parent = node.parent === null ? undefined : at.get(node.parent);
      const state = path.has(node.node) ? "path" : node.kept ? "kept" : "dropped";
      if (parent !== undefined) {
        const [px, py] = [parent.column * COLUMN + COLUMN - 8, parent.row * ROW + 12];
        drawing.append(
          svg("path", {
            class: `link ${state}`,
            d: `M${px} ${py}C${px + 10} ${py} ${x - 14} ${y - 4} ${x - 4} ${y - 4}`,
          }),
        );
      }
      const text = visible(node.text);
      const label = svg("text", { class: state, x, y }, text.length > 10 ? `${text.slice(0, 9)}…` : text);
      label.append(svg("title", {}, `${text}: log-probability ${short(node.logprob)}`));
      drawing.append(label);
    }
    const found = beams.found.map((each) => {
      const choose = button("", () => this.#render(beams, each.node), {
        class: "found",
        "aria-pressed": String(each.node === chosen),
      });
      choose.append(h("span", {}, each.text), h("span", { class: "figure" }, short(each.score)));
      return h("li", {}, choose);
    });
    this.#result.replaceChildren(
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "The tree of beams" }, drawing),
      h("ol", { class: "founds", "aria-label": "Found, the best first" }, ...found),
    );
  }
}
