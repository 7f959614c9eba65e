import { Text } from "@mantine/core";
import { Visible } from "../../components/Visible";
import { refOf } from "./fields";
import classes from "./source.module.css";

/** A field in the syntax of policies, with its name emphasised. */
export function FieldName({ map, name, most = 200 }: { map: string; name: string; most?: number }) {
  if (map === "") {
    return (
      <Text span inherit fw={600} className={classes.name}>
        <Visible text={name} most={most} />
      </Text>
    );
  }
  const ref = refOf(map, name);
  const key = ref.slice(map.length + 2, -2);
  return (
    <Text span inherit className={classes.name}>
      <Text span inherit c="var(--tw-quiet)">
        <Visible text={`${map}["`} />
      </Text>
      <Text span inherit fw={600}>
        <Visible text={key} most={most} />
      </Text>
      <Text span inherit c="var(--tw-quiet)">
        {'"]'}
      </Text>
    </Text>
  );
}
