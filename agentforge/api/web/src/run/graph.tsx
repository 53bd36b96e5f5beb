// The workflow as a graph, laid out by dagre; the node at work is lit, visited ones are filled.

import dagre from "@dagrejs/dagre";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { visible } from "../text";
import type { RunView } from "./state";

export interface Edge {
  from: string;
  to: string;
  when?: string | null;
  loop?: boolean;
}

interface Laid {
  width: number;
  height: number;
  nodes: { name: string; x: number; y: number; width: number }[];
  edges: { from: string; to: string; path: string; loop: boolean }[];
}

const HEIGHT = 30;
const CHAR = 7.1;

function layOut(edges: Edge[]): Laid {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 10, ranksep: 26, edgesep: 8, marginx: 6, marginy: 6 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const name of new Set(edges.flatMap((edge) => [edge.from, edge.to])))
    graph.setNode(name, { width: Math.round(name.length * CHAR + 26), height: HEIGHT });
  for (const edge of edges)
    if (edge.from !== edge.to) graph.setEdge(edge.from, edge.to, { loop: Boolean(edge.loop) });
  dagre.layout(graph);
  const size = graph.graph() as { width?: number; height?: number };
  return {
    width: size.width ?? 0,
    height: size.height ?? 0,
    nodes: graph.nodes().map((name: string) => {
      const { x, y, width } = graph.node(name) as { x: number; y: number; width: number };
      return { name, x, y, width };
    }),
    edges: graph.edges().map((edge: { v: string; w: string }) => {
      const label = graph.edge(edge) as { points: { x: number; y: number }[]; loop?: boolean };
      return { from: edge.v, to: edge.w, path: curve(label.points), loop: Boolean(label.loop) };
    }),
  };
}

/** A smooth line through the points. */
function curve(points: { x: number; y: number }[]): string {
  const [first, ...rest] = points;
  if (!first) return "";
  let path = `M${first.x},${first.y}`;
  rest.forEach((point, index) => {
    const next = rest[index + 1];
    const end = next ? { x: (point.x + next.x) / 2, y: (point.y + next.y) / 2 } : point;
    path += ` Q${point.x},${point.y} ${end.x},${end.y}`;
  });
  return path;
}

export function WorkflowGraph({ name, edges, view }: { name: string; edges: Edge[]; view: RunView | null }) {
  const laid = useMemo(() => layOut(edges), [edges]);
  const box = useRef<HTMLDivElement>(null);
  const stateOf = (node: string): string => {
    const state = view?.nodes.get(node);
    if (state?.active) return "active";
    if (node === "end") return view?.end ? "done" : "idle";
    return state ? "done" : "idle";
  };
  const active = laid.nodes.find((node) => stateOf(node.name) === "active");
  useEffect(() => {
    const at = box.current;
    if (at && active && at.scrollWidth > at.clientWidth) {
      const scale = at.scrollWidth / laid.width;
      at.scrollTo({ left: active.x * scale - at.clientWidth / 2, behavior: "smooth" });
    }
  }, [active?.name]);
  const said = active ? `now at ${active.name}` : view?.end ? "finished" : "";
  return (
    <div class="graph" ref={box} tabIndex={0} role="region" aria-label={`workflow ${visible(name)}`}>
      <svg
        viewBox={`0 0 ${laid.width} ${laid.height}`}
        width={laid.width}
        height={laid.height}
        role="img"
        aria-label={`Workflow ${visible(name)}: ${laid.nodes.length} nodes, ${said}`}
      >
        <defs>
          <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">
            <path d="M0,0.8 L7,4 L0,7.2" class="arrow" />
          </marker>
        </defs>
        {laid.edges.map((edge, index) => (
          <path
            key={index}
            d={edge.path}
            class={`edge ${edge.loop ? "loop" : ""} ${stateOf(edge.from) !== "idle" && stateOf(edge.to) !== "idle" ? "walked" : ""}`}
            marker-end="url(#arrow)"
          />
        ))}
        {laid.nodes.map((node) => (
          <NodeBox key={node.name} node={node} state={stateOf(node.name)} visits={view?.nodes.get(node.name)?.visits ?? 0} />
        ))}
      </svg>
    </div>
  );
}

function NodeBox(props: { node: Laid["nodes"][number]; state: string; visits: number }) {
  const { node, state, visits } = props;
  return (
    <g class={`node ${state}`} data-node={node.name} data-state={state}>
      <rect x={node.x - node.width / 2} y={node.y - HEIGHT / 2} width={node.width} height={HEIGHT} rx={HEIGHT / 2} />
      <text x={node.x} y={node.y + 4} text-anchor="middle">
        {visible(node.name)}
      </text>
      {visits > 1 && (
        <text class="visits" x={node.x + node.width / 2 - 4} y={node.y - HEIGHT / 2 + 2} text-anchor="middle">
          ×{visits}
        </text>
      )}
    </g>
  );
}
