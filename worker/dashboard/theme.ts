/** Runs before the first paint, so that a theme that was chosen shows at once. */
const chosen = localStorage.getItem("rouse-theme");
if (chosen === "light" || chosen === "dark") document.documentElement.dataset["theme"] = chosen;
