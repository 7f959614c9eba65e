import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

/** The service that `npm run dev` passes API calls on to. */
const service = process.env.TRACEWARDEN_URL ?? "http://127.0.0.1:8080";

export default defineConfig({
  base: "/ui/",
  plugins: [react()],
  build: {
    // The pages' Content-Security-Policy allows no data: scripts, and small files gain nothing from being inlined.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
  },
  server: {
    proxy: {
      // Everything but the application itself is the API. The service refuses foreign origins, so that ours is replaced.
      "^/(?!ui/|ui$|@|node_modules|src/)": {
        target: service,
        changeOrigin: true,
        headers: { origin: service },
      },
    },
  },
  test: { environment: "happy-dom", include: ["src/**/*.test.{ts,tsx}"], restoreMocks: true },
});
