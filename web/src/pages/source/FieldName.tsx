import { Text } from "@mantine/core";
import { SanitizedText } from "../../components/SanitizedText";
import { Secondary } from "../../components/Secondary";
import { refOf } from "./fields";
import classes from "./source.module.css";

/** A field in the syntax of policies, with its name emphasised. */
export function FieldName({ map, name, maxLength = 200 }: { map: string; name: string; maxLength?: number }) {
  if (map === "") {
    return (
      <Text span inherit fw={600} className={classes.name}>
        <SanitizedText text={name} maxLength={maxLength} />
      </Text>
    );
  }
  const ref = refOf(map, name);
  const key = ref.slice(map.length + 2, -2);
  return (
    <Text span inherit className={classes.name}>
      <Secondary>
        <SanitizedText text={`${map}["`} />
      </Secondary>
      <Text span inherit fw={600}>
        <SanitizedText text={key} maxLength={maxLength} />
      </Text>
      <Secondary>{'"]'}</Secondary>
    </Text>
  );
}
