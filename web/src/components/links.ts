import { Anchor, Button } from "@mantine/core";
import { createLink } from "@tanstack/react-router";

/** A link to a page, with the parameters that its route has. */
export const PageLink = createLink(Anchor<"a">);

/** A button that leads to a page. */
export const ButtonLink = createLink(Button<"a">);
