// The box for a JSON schema that the text has to follow.

import { button, h } from "./dom.js";

/** @typedef {import("../lab.js").Lab} Lab */

const EXAMPLE = `{
  "type": "object",
  "properties": {
    "name": {"type": "string", "maxLength": 12},
    "age": {"type": "integer", "minimum": 0, "maximum": 99}
  },
  "required": ["name", "age"],
  "additionalProperties": false
}`;

export class SchemaView {
  element;
  #lab;
  #field = h("textarea", {
    id: "schema",
    rows: 9,
    spellcheck: "false",
    "aria-describedby": "schema-help schema-wrong",
  });
  #wrong = h("p", { id: "schema-wrong", class: "blame", role: "alert" });

  /** @param {Lab} lab */
  constructor(lab) {
    this.#lab = lab;
    this.element = h(
      "details",
      { id: "schema-box" },
      h("summary", {}, "A JSON schema for the text"),
      h(
        "p",
        { class: "help", id: "schema-help" },
        "Only tokens that the schema allows can be drawn. The others are greyed among the rivals.",
      ),
      h("label", { for: "schema" }, "JSON schema"),
      this.#field,
      h(
        "div",
        { class: "row" },
        button("Use this schema", () => this.#use(this.#field.value), { class: "main", id: "use-schema" }),
        button("Example", () => (this.#field.value = EXAMPLE), { id: "schema-example" }),
        button("No schema", () => this.#use(""), { id: "no-schema" }),
      ),
      this.#wrong,
    );
    lab.on("state", () => (this.#field.value = lab.state.schema ?? ""));
    lab.on("text", () => this.#blame());
  }

  /** @param {string} text */
  #use(text) {
    const schema = text.trim() === "" ? null : text;
    if (schema !== null && !isJson(schema)) {
      this.#wrong.textContent = "This is not JSON. The text goes on without it until it reads as a schema.";
      return;
    }
    this.#wrong.textContent = "";
    if (schema === this.#lab.state.schema) return;
    this.#lab.change(schema === null ? "No schema" : "A schema", { schema, forced: [] });
  }

  #blame() {
    const { failure } = this.#lab.run;
    if (this.#lab.state.schema === null && failure === null) return;
    this.#wrong.textContent = failure?.field === "schema" ? failure.message : "";
  }
}

/** @param {string} text */
function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
