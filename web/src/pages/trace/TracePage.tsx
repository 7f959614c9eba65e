import { PageTitle } from "../../components/PageTitle";

export function TracePage() {
  return <PageTitle title="TracePage" />;
}
