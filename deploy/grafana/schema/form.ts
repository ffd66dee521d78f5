// What deploy/grafana/dashboards may hold, by Grafana's own types; `make grafana-schema` makes
// dashboard.schema.json of it. A panel's options are those of its kind; what is left out of them
// has Grafana's default.
import type {
  Dashboard as AnyDashboard,
  FieldConfig,
  FieldConfigSource,
  Panel as AnyPanel,
} from '@grafana/schema/dist/types/raw/dashboard/x/types.gen';
import type { Options as BarGauge } from '@grafana/schema/dist/types/raw/composable/bargauge/panelcfg/x/types.gen';
import type {
  FieldConfig as HeatmapField,
  Options as Heatmap,
} from '@grafana/schema/dist/types/raw/composable/heatmap/panelcfg/x/types.gen';
import type { Options as Stat } from '@grafana/schema/dist/types/raw/composable/stat/panelcfg/x/types.gen';
import type {
  FieldConfig as HistoryField,
  Options as History,
} from '@grafana/schema/dist/types/raw/composable/statushistory/panelcfg/x/types.gen';
import type {
  FieldConfig as TableField,
  Options as Table,
} from '@grafana/schema/dist/types/raw/composable/table/panelcfg/x/types.gen';
import type {
  FieldConfig as LinesField,
  Options as Lines,
} from '@grafana/schema/dist/types/raw/composable/timeseries/panelcfg/x/types.gen';

interface Nothing {}
interface Fields<Custom> extends Omit<FieldConfigSource, 'defaults'> {
  defaults: Omit<FieldConfig, 'custom'> & { custom?: Partial<Custom> };
}
interface Drawn<Kind extends string, Options, Custom>
  extends Omit<AnyPanel, 'type' | 'options' | 'fieldConfig'> {
  type: Kind;
  options: Partial<Options>;
  fieldConfig: Fields<Custom>;
}

type Panel =
  | Drawn<'timeseries', Lines, LinesField>
  | Drawn<'stat', Stat, Nothing>
  | Drawn<'bargauge', BarGauge, Nothing>
  | Drawn<'table', Table, TableField>
  | Drawn<'heatmap', Heatmap, HeatmapField>
  | Drawn<'status-history', History, HistoryField>;

export interface Dashboard extends Omit<AnyDashboard, 'panels'> {
  uid: string;
  title: string;
  panels: Panel[];
}
