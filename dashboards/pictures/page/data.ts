// Frames as Grafana makes them for a panel: transformed, with units, colours and links.

import {
  applyFieldOverrides, cacheFieldDisplayNames, DataFrame, dateTime, FieldConfigOptionsRegistry, GrafanaTheme2, identityOverrideProcessor,
  standardTransformers, standardTransformersRegistry, TimeRange, toDataFrame, transformDataFrame,
} from '@grafana/data';
import { lastValueFrom } from 'rxjs';

import { State } from './state';

const CUSTOM = 'custom.';
let properties: FieldConfigOptionsRegistry;

export function prepare(known: State['known']) {
  const transformers = Object.values(standardTransformers).filter(({ id }) => known.transformations.includes(id));
  standardTransformersRegistry.setInit(() =>
    transformers.map((transformation: any) => ({
      id: transformation.id, name: transformation.name, transformation, editor: () => null, imageDark: '',
      imageLight: '',
    }))
  );
  properties = new FieldConfigOptionsRegistry(() => known.properties.map(property));
}

// A property of a field, as a panel of Grafana registers it.
function property(id: string): any {
  const isCustom = id.startsWith(CUSTOM);
  const path = isCustom ? id.slice(CUSTOM.length) : id;
  return {
    id, path, isCustom, name: id, editor: () => null, override: () => null, process: identityOverrideProcessor,
    shouldApply: () => true, settings: {},
  };
}

export async function framesOf(panel: any, state: State, theme: GrafanaTheme2): Promise<DataFrame[]> {
  const raw = (state.frames[panel.id] ?? []).map(toDataFrame);
  const transformed = await lastValueFrom(transformDataFrame(panel.transformations ?? [], raw));
  const frames = applyFieldOverrides({
    data: transformed,
    fieldConfig: { defaults: structuredClone(panel.fieldConfig.defaults), overrides: panel.fieldConfig.overrides ?? [] },
    fieldConfigRegistry: properties,
    replaceVariables: (text) => text,
    theme,
    timeZone: 'utc',
  });
  cacheFieldDisplayNames(frames);
  return frames;
}

export function timeRange(state: State): TimeRange {
  const [from, to] = [dateTime(state.from), dateTime(state.to)];
  return { from, to, raw: { from, to } };
}
