// The frame of the page: navigation, theme, the banner when the server is gone, and the page that the address names.

import "@fontsource-variable/inter/wght.css";
import "@fontsource-variable/jetbrains-mono/wght.css";
import "uplot/dist/uPlot.min.css";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/stage.css";
import "./styles/tests.css";
import "./styles/run.css";
import "./styles/diff.css";
import "./styles/pages.css";
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { online, signedOut } from "./api";
import { EvaluationPage } from "./pages/evaluation";
import { MemoryPage } from "./pages/memory";
import { NewRunPage } from "./pages/new";
import { RunsPage } from "./pages/runs";
import { SearchPage } from "./pages/search";
import { SignIn } from "./pages/signin";
import { RunPage } from "./run/page";
import { useSignal } from "./ui/hooks";
import { Icon, type IconName } from "./ui/icons";

const PAGES: [string, string, IconName][] = [
  ["#/", "Runs", "runs"],
  ["#/memory", "Memory", "memory"],
  ["#/index", "Index", "search"],
  ["#/evaluation", "Evaluation", "chart"],
];

function useRoute(): string[] {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const change = (): void => {
      setHash(location.hash);
      window.scrollTo(0, 0);
      document.getElementById("main")?.focus({ preventScroll: true });
    };
    addEventListener("hashchange", change);
    return () => removeEventListener("hashchange", change);
  }, []);
  return hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decode);
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function Page() {
  const [first, second] = useRoute();
  const locked = useSignal(signedOut);
  if (locked) return <SignIn />;
  if (first === "runs" && second) return <RunPage key={second} id={second} />;
  if (first === "new") return <NewRunPage />;
  if (first === "memory") return <MemoryPage />;
  if (first === "index") return <SearchPage />;
  if (first === "evaluation") return <EvaluationPage {...(second ? { id: second } : {})} />;
  return <RunsPage />;
}

function App() {
  const up = useSignal(online);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), document.getElementById("main")?.focus())}>
        Skip to the content
      </a>
      <Bar />
      {!up && (
        <p class="banner" role="alert">
          <Icon name="alert" /> The server does not answer. What you see is the last it said; this page goes on by itself when it is back.
        </p>
      )}
      <main id="main" tabIndex={-1}>
        <Page />
      </main>
    </>
  );
}

function Bar() {
  const route = `#/${useRoute()[0] ?? ""}`;
  const here = (href: string): boolean => route === href || (href === "#/" && (route === "#/runs" || route === "#/new"));
  return (
    <header class="bar">
      <a class="brand" href="#/">
        <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
          <rect width="32" height="32" rx="9" />
          <path d="M9 17.2l4.6 4.6L23.4 11" />
        </svg>
        AgentForge
      </a>
      <nav aria-label="Pages">
        {PAGES.map(([href, label, icon]) => (
          <a key={href} href={href} {...(here(href) ? { "aria-current": "page" as const } : {})}>
            <Icon name={icon} size={16} /> <span>{label}</span>
          </a>
        ))}
      </nav>
      <ThemeButton />
    </header>
  );
}

const THEME = "agentforge.theme";
const system = matchMedia("(prefers-color-scheme: dark)");

/** Follows the system until somebody chooses. */
function chosenTheme(): "dark" | "light" {
  const kept = localStorage.getItem(THEME);
  return kept === "dark" || kept === "light" ? kept : system.matches ? "dark" : "light";
}

function applyTheme(): void {
  document.documentElement.dataset.theme = chosenTheme();
}

function ThemeButton() {
  const [theme, setTheme] = useState(chosenTheme);
  useEffect(() => {
    const follow = (): void => {
      applyTheme();
      setTheme(chosenTheme());
    };
    system.addEventListener("change", follow);
    return () => system.removeEventListener("change", follow);
  }, []);
  const turn = (): void => {
    localStorage.setItem(THEME, theme === "dark" ? "light" : "dark");
    applyTheme();
    setTheme(chosenTheme());
  };
  return (
    <button type="button" class="button ghost theme" aria-label={theme === "dark" ? "Light colours" : "Dark colours"} onClick={turn}>
      <Icon name={theme === "dark" ? "sun" : "moon"} />
    </button>
  );
}

applyTheme();
const root = document.getElementById("app");
if (root) render(<App />, root);
