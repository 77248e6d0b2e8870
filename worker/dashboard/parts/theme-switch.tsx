/** Light, dark, or as the system says. */
import { useState } from "preact/hooks";

const THEMES = ["system", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];

export function ThemeSwitch() {
  const [theme, setTheme] = useState<Theme>(
    () => THEMES.find((one) => one === document.documentElement.dataset["theme"]) ?? "system",
  );
  const choose = (next: Theme) => {
    setTheme(next);
    if (next === "system") {
      delete document.documentElement.dataset["theme"];
      localStorage.removeItem("rouse-theme");
    } else {
      document.documentElement.dataset["theme"] = next;
      localStorage.setItem("rouse-theme", next);
    }
  };
  return (
    <label class="theme">
      <span class="unseen">Theme</span>
      <select value={theme} onChange={(event) => choose(event.currentTarget.value as Theme)}>
        <option value="system">As the system</option>
        <option value="light">Light theme</option>
        <option value="dark">Dark theme</option>
      </select>
    </label>
  );
}
