import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

/** The service that `npm run dev` forwards API calls to. */
const service = process.env.TRACEWARDEN_URL ?? "http://127.0.0.1:8080";

export default defineConfig({
  base: "/ui/",
  plugins: [react()],
  build: {
    // The pages' Content-Security-Policy blocks scripts in data: URLs, and small files gain nothing from being inlined.
    assetsInlineLimit: 0,
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
