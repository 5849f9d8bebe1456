// Light, dark, or as the system has it: remembered by the browser where it remembers anything.

const ORDER = ["auto", "light", "dark"];
const WORDS = { auto: "Theme: auto", light: "Theme: light", dark: "Theme: dark" };

function remembered() {
  try {
    return localStorage.getItem("flowgate-theme");
  } catch {
    return null;
  }
}

export function startTheme(button) {
  let theme = ORDER.includes(remembered()) ? remembered() : "auto";
  const apply = () => {
    document.documentElement.dataset.theme = theme;
    button.textContent = WORDS[theme];
  };
  button.addEventListener("click", () => {
    theme = ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length];
    try {
      localStorage.setItem("flowgate-theme", theme);
    } catch {
      // Then it holds for this visit.
    }
    apply();
  });
  apply();
}
