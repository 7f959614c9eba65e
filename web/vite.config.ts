import react from "@vitejs/plugin-react";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

/** The service that `npm run dev` forwards API calls to. */
const service = process.env.TRACEWARDEN_URL ?? "http://127.0.0.1:8080";

/** Moves the style sheet after the outline in `index.html`, so that the browser paints the outline first. It stays before the
 * application, whose theme overrides it. */
const styleSheetAfterOutline: Plugin = {
  name: "style-sheet-after-outline",
  transformIndexHtml: {
    order: "post",
    handler: (html) => {
      const [link = ""] = / *<link rel="stylesheet"[^>]*>\n/.exec(html) ?? [];
      return html.replace(link, "").replace(/ *<div id="root">/, (root) => link + root);
    },
  },
};

export default defineConfig({
  base: "/ui/",
  plugins: [react(), styleSheetAfterOutline],
  build: {
    // The pages' Content-Security-Policy blocks scripts in data: URLs, and small files gain nothing from being inlined.
    assetsInlineLimit: 0,
    // One file: a style sheet that is loaded later would change the order of the rules.
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    sourcemap: false,
  },
  server: {
    proxy: {
      // All paths except those of the application belong to the API. The service rejects foreign origins, so that the header is
      // replaced.
      "^/(?!ui/|ui$|@|node_modules|src/)": {
        target: service,
        changeOrigin: true,
        headers: { origin: service },
      },
    },
  },
  test: { environment: "happy-dom", include: ["src/**/*.test.{ts,tsx}"], restoreMocks: true },
});
