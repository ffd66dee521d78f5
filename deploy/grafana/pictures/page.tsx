// Draws a dashboard with Grafana's own panel components (@grafana/ui); `deploy.observe.pictures`
// gives it the file of the dashboard and what Prometheus answered to each query.
import {
  applyFieldOverrides,
  createTheme,
  DataFrame,
  dateTime,
  FieldConfigSource,
  FieldType,
  getDisplayProcessor,
  getFieldDisplayName,
  reduceField,
  standardTransformers,
  ThemeContext,
  TimeRange,
  toDataFrame,
} from '@grafana/data';
import { BarGauge, BigValue, GlobalStyles, PanelChrome, Table, TimeSeries } from '@grafana/ui';
import { createRoot } from 'react-dom/client';
import { of } from 'rxjs';

type Labels = Record<string, string>;
interface Series { metric: Labels; values?: Array<[number, string]>; value?: [number, string] }
interface Answer { legend: string; series: Series[] }
interface Drawn { panel: any; answers: Answer[] }
interface Asked { title: string; from: number; to: number; panels: Drawn[] }

const ROW = 38;
const COLUMN = 66;
const GAP = 8;
const theme = createTheme({ colors: { mode: 'dark' } });
const asked = (window as any).ASKED as Asked;
const range: TimeRange = {
  from: dateTime(asked.from * 1000),
  to: dateTime(asked.to * 1000),
  raw: { from: 'now-1h', to: 'now' },
};

function named(legend: string, labels: Labels): string | undefined {
  return legend === '__auto' ? undefined : legend.replace(/{{\s*(\w+)\s*}}/g, (_, name) => labels[name] ?? '');
}

function frame(series: Series, legend: string): DataFrame {
  const { __name__: name, ...labels } = series.metric;
  const values = series.values ?? [series.value!];
  return toDataFrame({
    name,
    fields: [
      { name: 'Time', type: FieldType.time, values: values.map((one) => one[0] * 1000), config: { interval: 15_000 } },
      {
        name: 'Value',
        type: FieldType.number,
        labels,
        values: values.map((one) => Number(one[1])),
        config: { displayNameFromDS: named(legend, labels) },
      },
    ],
  });
}

function configured(frames: DataFrame[], source: FieldConfigSource): DataFrame[] {
  const found = applyFieldOverrides({ data: frames, fieldConfig: source, replaceVariables: (text) => text, theme, timeZone: 'utc' });
  let number = 0;
  for (const one of found) {
    for (const field of one.fields) {
      // Grafana fills these in from a registry of its panels, which the packages do not have.
      field.config = { color: { mode: 'palette-classic' as any }, ...source.defaults, ...field.config };
      field.config.custom = { ...source.defaults.custom };
      field.state = { ...field.state, seriesIndex: field.type === FieldType.number ? number++ : 0 };
      field.display = getDisplayProcessor({ field, theme, timeZone: 'utc' });
    }
  }
  return found;
}

function framesOf(drawn: Drawn): DataFrame[] {
  const frames = drawn.answers.flatMap((answer) => answer.series.map((one) => frame(one, answer.legend)));
  return configured(frames, drawn.panel.fieldConfig);
}

// ── kinds of panels ──
function Lines({ drawn, width, height }: { drawn: Drawn; width: number; height: number }) {
  const frames = framesOf(drawn);
  return <TimeSeries frames={frames} width={width} height={height} timeRange={range} timeZone="utc" legend={drawn.panel.options.legend} />;
}

function lasts(drawn: Drawn) {
  const frames = framesOf(drawn);
  return frames.map((one) => {
    const field = one.fields[1];
    const value = reduceField({ field, reducers: ['lastNotNull'] }).lastNotNull;
    return { field, display: { ...field.display!(value), title: getFieldDisplayName(field, one, frames) } };
  });
}

function Numbers({ drawn, width, height }: { drawn: Drawn; width: number; height: number }) {
  const all = lasts(drawn);
  const part = width / Math.max(all.length, 1);
  return (
    <div style={{ display: 'flex' }}>
      {all.map(({ display }, at) => (
        <BigValue key={at} value={display} width={part} height={height} theme={theme} colorMode={drawn.panel.options.colorMode} graphMode={drawn.panel.options.graphMode} justifyMode={drawn.panel.options.justifyMode} textMode={all.length > 1 ? 'value_and_name' as any : 'value' as any} />
      ))}
    </div>
  );
}

function Bars({ drawn, width, height }: { drawn: Drawn; width: number; height: number }) {
  const all = lasts(drawn).slice(0, Math.floor(height / 24));
  const most = Math.max(...all.map(({ display }) => display.numeric), 0);
  const each = Math.min(height / Math.max(all.length, 1), 60);
  return (
    <div>
      {all.map(({ field, display }, at) => (
        <BarGauge key={at} value={display} field={{ min: 0, max: most, ...field.config }} display={field.display} width={width} height={each - 4} theme={theme} orientation={drawn.panel.options.orientation} displayMode={drawn.panel.options.displayMode} showUnfilled={drawn.panel.options.showUnfilled} itemSpacing={4} />
      ))}
    </div>
  );
}

function Rows({ drawn, width, height }: { drawn: Drawn; width: number; height: number }) {
  const tables = drawn.answers.filter((one) => one.series.length).map((answer, number) => {
    const names = [...new Set(answer.series.flatMap((one) => Object.keys(one.metric)))].filter((one) => one !== '__name__' && one !== 'job' && one !== 'instance');
    return toDataFrame({
      fields: [
        ...names.map((name) => ({ name, type: FieldType.string, values: answer.series.map((one) => one.metric[name]) })),
        { name: answer.legend === '__auto' ? `Value #${'ABCD'[number]}` : answer.legend, type: FieldType.number, values: answer.series.map((one) => Number(one.value![1])), config: { ...drawn.panel.fieldConfig.defaults } },
      ],
    });
  });
  if (!tables.length) {
    return <Nothing />;
  }
  return <Merged tables={tables} panel={drawn.panel} width={width} height={height} />;
}

function Merged({ tables, panel, width, height }: { tables: DataFrame[]; panel: any; width: number; height: number }) {
  let merged = tables[0];
  standardTransformers.mergeTransformer.operator({}, { interpolate: (text: string) => text } as any)(of(tables)).subscribe((found: DataFrame[]) => (merged = found[0]));
  const [shown] = configured([merged], { ...panel.fieldConfig, defaults: { ...panel.fieldConfig.defaults, custom: {} } });
  return <Table data={shown} width={width} height={height} ariaLabel={panel.title} />;
}

function Nothing() {
  return <div style={{ color: theme.colors.text.secondary, padding: 16 }}>No data</div>;
}

function Elsewhere({ drawn }: { drawn: Drawn }) {
  return <div style={{ color: theme.colors.text.secondary, padding: 16 }}>Drawn by Grafana alone: {drawn.panel.type}</div>;
}

const KINDS: Record<string, (properties: { drawn: Drawn; width: number; height: number }) => any> = {
  timeseries: Lines,
  stat: Numbers,
  bargauge: Bars,
  table: Rows,
};

function Panel({ drawn }: { drawn: Drawn }) {
  const { x, y, w, h } = drawn.panel.gridPos;
  const width = w * COLUMN - GAP;
  const height = h * ROW - GAP;
  const Kind = KINDS[drawn.panel.type] ?? Elsewhere;
  const empty = drawn.answers.every((one) => one.series.length === 0);
  return (
    <div style={{ position: 'absolute', left: x * COLUMN, top: y * ROW, width, height }}>
      <PanelChrome title={drawn.panel.title} width={width} height={height}>
        {(innerWidth, innerHeight) => (empty ? <Nothing /> : <Kind drawn={drawn} width={innerWidth} height={innerHeight} />)}
      </PanelChrome>
    </div>
  );
}

function Dashboard() {
  return (
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <div style={{ background: theme.colors.background.canvas, padding: 12, minHeight: '100vh' }}>
        <h3 style={{ margin: '4px 0 12px 4px' }}>{asked.title}</h3>
        <div style={{ position: 'relative' }}>
          {asked.panels.map((one) => (
            <Panel key={one.panel.id} drawn={one} />
          ))}
        </div>
      </div>
    </ThemeContext.Provider>
  );
}

createRoot(document.getElementById('page')!).render(<Dashboard />);
