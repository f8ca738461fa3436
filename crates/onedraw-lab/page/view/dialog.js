// A window over the page.

import { button, h } from "./dom.js";

/**
 * Opens a window, which is gone once it is closed.
 * @param {string} title
 * @param {...(Node | string)} content
 * @returns {HTMLDialogElement}
 */
export function openDialog(title, ...content) {
  const dialog = h("dialog", { "aria-labelledby": "dialog-title" });
  const head = h("div", { class: "dialog-head" }, h("h2", { id: "dialog-title" }, title));
  head.append(button("×", () => dialog.close(), { class: "plain", "aria-label": "Close" }));
  dialog.append(head, ...content);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/**
 * A text with a button that copies it.
 * @param {string} label what the text is
 * @param {string} text
 */
export function copyable(label, text) {
  const field = h("textarea", {
    readonly: true,
    "aria-label": label,
    rows: Math.min(14, text.split("\n").length + 1),
    spellcheck: "false",
  });
  field.value = text;
  const copy = button("Copy", async () => {
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = "Copied";
    } catch {
      // The browser refuses; the reader can copy what is selected.
      field.select();
      copy.textContent = "Selected: copy it by keyboard";
    }
  });
  return h("div", { class: "copyable" }, field, copy);
}
