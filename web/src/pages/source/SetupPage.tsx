import { PageTitle } from "../../components/PageTitle";

export function SetupPage() {
  return <PageTitle title="SetupPage" />;
}
