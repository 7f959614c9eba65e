import {
  Alert,
  Badge,
  createTheme,
  InputWrapper,
  type MantineColorsTuple,
  Menu,
  Modal,
  Notification,
} from "@mantine/core";

const BRAND_COLOURS: MantineColorsTuple = [
  "#e8f4fd",
  "#d3e6f7",
  "#a5cbee",
  "#73afe6",
  "#4b97df",
  "#3288da",
  "#2280d8",
  "#136dc0",
  "#0561ac",
  "#005498",
];

export const theme = createTheme({
  primaryColor: "brand",
  colors: { brand: BRAND_COLOURS },
  primaryShade: { light: 7, dark: 7 },
  defaultRadius: "sm",
  fontFamily: "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif",
  fontFamilyMonospace: "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace",
  fontSizes: { xs: "0.75rem", sm: "0.8125rem", md: "0.875rem", lg: "1rem", xl: "1.25rem" },
  headings: {
    sizes: { h1: { fontSize: "1.375rem" }, h2: { fontSize: "1.125rem" }, h3: { fontSize: "1rem" } },
  },
  cursorType: "pointer",
  respectReducedMotion: true,
  components: {
    // The default colour of the title has too little contrast on the tinted background.
    Alert: Alert.extend({ styles: { title: { color: "var(--mantine-color-text)" } } }),
    Badge: Badge.extend({ defaultProps: { tt: "none" } }),
    // The default grey has too little contrast.
    Notification: Notification.extend({ styles: { description: { color: "var(--tw-text-secondary)" } } }),
    // Optional inputs say so.
    InputWrapper: InputWrapper.extend({ defaultProps: { withAsterisk: false } }),
    // The close button has no text.
    Modal: Modal.extend({ defaultProps: { closeButtonProps: { "aria-label": "Close" } } }),
    // A menu may contain only items; the first of them gets the focus.
    Menu: Menu.extend({ defaultProps: { withInitialFocusPlaceholder: false } }),
  },
});
