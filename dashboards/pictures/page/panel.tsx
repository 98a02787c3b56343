// The inside of each kind of panel.

import {
  DataFrame, DisplayValueAlignmentFactors, getFieldDisplayValues, GrafanaTheme2, renderTextPanelMarkdown,
} from '@grafana/data';
import { BigValue, TimeSeries, VizRepeater } from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';
import { ReactNode, useEffect, useState } from 'react';

import { framesOf, timeRange } from './data';
import { State } from './state';

interface Props {
  panel: any;
  state: State;
  theme: GrafanaTheme2;
  width: number;
  height: number;
}

interface Drawn extends Props {
  frames: DataFrame[];
}

export function Panel(props: Props) {
  const [frames, setFrames] = useState<DataFrame[]>();
  const { panel, state, theme } = props;
  useEffect(() => {
    if (panel.type !== 'text') {
      framesOf(panel, state, theme).then(setFrames);
    }
  }, []);
  if (panel.type === 'text') {
    return <Text {...props} />;
  }
  return frames ? <div data-drawn>{inside({ ...props, frames })}</div> : <div data-waiting />;
}

function inside(drawn: Drawn): ReactNode {
  switch (drawn.panel.type) {
    case 'stat':
      return <Stat {...drawn} />;
    case 'timeseries':
      return <Series {...drawn} />;
    case 'table':
      return <Listing {...drawn} />;
    default:
      throw new Error(`unknown type of panel: ${drawn.panel.type}`);
  }
}

function Stat({ panel, frames, theme, width, height }: Drawn) {
  const { colorMode, graphMode, justifyMode, orientation, reduceOptions, textMode } = panel.options;
  const { fieldConfig } = panel;
  const values = () =>
    getFieldDisplayValues({
      data: frames, fieldConfig: { defaults: fieldConfig.defaults, overrides: [] }, reduceOptions, theme,
      replaceVariables: (text) => text, timeZone: 'utc',
    });
  return (
    <VizRepeater getValues={values} orientation={orientation} source={frames} width={width} height={height}
      itemSpacing={3} renderCounter={0} autoGrid
      getAlignmentFactors={(): DisplayValueAlignmentFactors => ({ title: '', text: '' })}
      renderValue={({ value, width, height, count }: any) => (
        <BigValue value={value.display} width={width} height={height} count={count} colorMode={colorMode}
          graphMode={graphMode} justifyMode={justifyMode} textMode={textMode} theme={theme} />
      )} />
  );
}

function Series({ panel, frames, state, theme, width, height }: Drawn) {
  if (!frames.length) {
    return <Nothing {...{ panel, theme, width, height }} />;
  }
  return (
    <TimeSeries frames={frames} width={width} height={height} legend={panel.options.legend} timeZone="utc"
      timeRange={timeRange(state)} options={panel.options} />
  );
}

function Listing({ panel, frames, theme, width, height }: Drawn) {
  const { cellHeight, showHeader, showTypeIcons, sortBy } = panel.options;
  const [frame] = frames;
  if (!frame?.length) {
    return <Nothing {...{ panel, theme, width, height }} />;
  }
  return (
    <TableNG data={frame} width={width} height={height} cellHeight={cellHeight} noHeader={!showHeader}
      showTypeIcons={showTypeIcons} initialSortBy={sortBy} fieldConfig={panel.fieldConfig} enableVirtualization />
  );
}

function Text({ panel, height }: Props) {
  const html = renderTextPanelMarkdown(panel.options.content);
  return (
    <div data-drawn className="markdown-html" style={{ height, overflow: 'hidden' }}
      dangerouslySetInnerHTML={{ __html: html }} />
  );
}

function Nothing({ panel, theme, width, height }: Omit<Props, 'state'>) {
  const centred = { display: 'flex', alignItems: 'center', justifyContent: 'center', width, height };
  return <div style={{ ...centred, ...theme.typography.h5, color: theme.colors.text.secondary }}>
    {panel.fieldConfig.defaults.noValue}
  </div>;
}
