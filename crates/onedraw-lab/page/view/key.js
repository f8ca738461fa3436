// Asks for the server's key. It stays in the memory of the page.

import { h } from "./dom.js";
import { openDialog } from "./dialog.js";

/**
 * @param {string} message
 * @returns {Promise<string | null>} null where the reader declines
 */
export function askForKey(message) {
  return new Promise((resolve) => {
    const field = h("input", {
      type: "password",
      autocomplete: "off",
      "aria-label": "Key of the server",
      required: true,
    });
    const form = h("form", { method: "dialog", class: "row" }, field, h("button", { class: "main" }, "Use this key"));
    const note = h("p", { class: "quiet" }, "It is kept in the memory of this page alone.");
    /** @type {string | null} */
    let key = null;
    form.addEventListener("submit", () => (key = field.value));
    openDialog("The server's key", h("p", {}, message), form, note).addEventListener("close", () => resolve(key));
    field.focus();
  });
}
