import { pieces } from "../lib/visible";
import classes from "./Visible.module.css";

/** Text from spans: invisible characters are shown by name, and bidirectional text is isolated. */
export function Visible({ text, most }: { text: string; most?: number }) {
  const shown = most !== undefined && text.length > most ? `${text.slice(0, most)}…` : text;
  return (
    <bdi className={classes.text}>
      {pieces(shown).map((piece, place) =>
        piece.hidden ? (
          // biome-ignore lint/suspicious/noArrayIndexKey: pieces of one text have no other identity
          <span key={place} className={classes.hidden} title="invisible or misleading character">
            {piece.text}
          </span>
        ) : (
          piece.text
        ),
      )}
    </bdi>
  );
}
