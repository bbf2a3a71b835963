package deploy

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// rule is an alert of alerts.yml.
type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         time.Duration     `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// alerts reads alerts.yml, in which nothing may stand that these tests do not know.
func alerts(t *testing.T) []rule {
	var file struct {
		Groups []struct {
			Name  string `yaml:"name"`
			Rules []rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	read(t, "alerts.yml", &file)
	var all []rule
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	require.NotEmpty(t, all)
	return all
}

func read(t *testing.T, file string, into any) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	require.NoError(t, d.Decode(into), file)
}

// unit is a test of alerts_test.yml, in promtool's format: the part of it that is used there.
type unit struct {
	Name     string        `yaml:"name"`
	Interval time.Duration `yaml:"interval"`
	Input    []struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	} `yaml:"input_series"`
	Alerts []struct {
		At     time.Duration `yaml:"eval_time"`
		Alert  string        `yaml:"alertname"`
		Expect []firing      `yaml:"exp_alerts"`
	} `yaml:"alert_rule_test"`
}

// firing is an alert that fires.
type firing struct {
	Labels      map[string]string `yaml:"exp_labels"`
	Annotations map[string]string `yaml:"exp_annotations"`
}

func units(t *testing.T) []unit {
	var file struct {
		Files    []string      `yaml:"rule_files"`
		Interval time.Duration `yaml:"evaluation_interval"`
		Tests    []unit        `yaml:"tests"`
	}
	read(t, "alerts_test.yml", &file)
	require.Equal(t, []string{"alerts.yml"}, file.Files)
	require.Equal(t, time.Minute, file.Interval)
	require.NotEmpty(t, file.Tests)
	for _, u := range file.Tests {
		for _, check := range u.Alerts {
			for _, f := range check.Expect {
				f.Labels["alertname"] = check.Alert // as promtool does
			}
		}
	}
	return file.Tests
}

// load stores the series of a test from the Unix epoch on, as promtool does.
func load(t *testing.T, u unit) *memory {
	m := newMemory()
	for _, in := range u.Input {
		name, values, err := syntax.ParseSeriesDesc(in.Series + " " + in.Values)
		require.NoError(t, err, in.Series)
		for i, v := range values {
			if !v.Omitted {
				m.add(name, time.UnixMilli(0).Add(time.Duration(i)*u.Interval), v.Value)
			}
		}
	}
	return m
}

// fire evaluates a rule once a minute, as Prometheus does: an alert fires when its expression had a value for as long as it says.
func fire(t *testing.T, m *memory, r rule, until time.Duration) []firing {
	engine := newEngine(t)
	since := map[string]time.Duration{}
	var now []firing
	for at := time.Duration(0); at <= until; at += time.Minute {
		now = nil
		active := map[string]time.Duration{}
		for _, s := range instant(t, engine, m, r.Expr, time.UnixMilli(0).Add(at)) {
			key := s.Metric.String()
			active[key] = at
			if begun, ok := since[key]; ok {
				active[key] = begun
			}
			if at-active[key] >= r.For {
				now = append(now, r.firing(t, s.Metric))
			}
		}
		since = active
	}
	return now
}

// firing is the alert for one result of the expression.
func (r rule) firing(t *testing.T, result labels.Labels) firing {
	f := firing{map[string]string{"alertname": r.Alert}, map[string]string{}}
	of := result.Map()
	delete(of, "__name__")
	maps.Copy(f.Labels, of)
	maps.Copy(f.Labels, r.Labels)
	for name, text := range r.Annotations {
		tmpl, err := template.New(name).Option("missingkey=zero").Parse("{{ $labels := . }}" + text)
		require.NoError(t, err)
		var out strings.Builder
		require.NoError(t, tmpl.Execute(&out, of))
		f.Annotations[name] = out.String()
	}
	return f
}

func TestAlerts(t *testing.T) {
	rules := map[string]rule{}
	for _, r := range alerts(t) {
		rules[r.Alert] = r
	}
	fired, silent := map[string]bool{}, map[string]bool{}
	for _, u := range units(t) {
		t.Run(u.Name, func(t *testing.T) {
			m := load(t, u)
			for _, check := range u.Alerts {
				r, ok := rules[check.Alert]
				require.True(t, ok, "%s is no alert", check.Alert)
				got := fire(t, m, r, check.At)
				require.ElementsMatch(t, check.Expect, got, "%s at %s", check.Alert, check.At)
				if len(got) > 0 {
					fired[check.Alert] = true
				} else {
					silent[check.Alert] = true
				}
			}
		})
	}
	names := slices.Collect(maps.Keys(rules))
	require.ElementsMatch(t, names, slices.Collect(maps.Keys(fired)), "each alert fires in some test")
	require.ElementsMatch(t, names, slices.Collect(maps.Keys(silent)), "and is silent in some test")
}

// The control: what is judged is the rule. With a wrong threshold, a wrong time or a renamed metric its tests fail.
func TestAlertsAreToldFromWrongOnes(t *testing.T) {
	for _, change := range []func(*rule){
		func(r *rule) { r.Expr = strings.ReplaceAll(r.Expr, "holdfast_", "holdslow_") },
		func(r *rule) { r.Labels = map[string]string{"severity": "none"} },
		func(r *rule) { r.Annotations = map[string]string{"summary": "another"} },
		func(r *rule) { r.For += 24 * time.Hour },
	} {
		for _, r := range alerts(t) {
			change(&r)
			wrong := false
			for _, u := range units(t) {
				for _, check := range u.Alerts {
					if check.Alert == r.Alert && len(check.Expect) > 0 {
						got := fire(t, load(t, u), r, check.At)
						wrong = wrong || len(got) == 0 || !maps.Equal(got[0].Labels, check.Expect[0].Labels) ||
							!maps.Equal(got[0].Annotations, check.Expect[0].Annotations)
					}
				}
			}
			require.True(t, wrong, r.Alert)
		}
	}
}

// TestPromtoolAgrees: promtool, where it is installed, runs the same file, so both understand its format alike.
func TestPromtoolAgrees(t *testing.T) {
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Log("no promtool here; the rules have been tested by the engine alone")
		return
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		out, err := exec.Command(tool, args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

var syntax = parser.NewParser(parser.Options{})

// sample is a number at a time.
type sample struct {
	at time.Time
	v  float64
}

func (s sample) T() int64                      { return s.at.UnixMilli() }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.v }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// memory is what Prometheus would have stored: samples by their labels.
type memory struct {
	storage.MockQuerier
	names   map[uint64]labels.Labels
	samples map[uint64][]chunks.Sample
}

func newMemory() *memory {
	return &memory{names: map[uint64]labels.Labels{}, samples: map[uint64][]chunks.Sample{}}
}

// add appends a sample, which is later than all of its series.
func (m *memory) add(l labels.Labels, at time.Time, v float64) {
	m.names[l.Hash()] = l
	m.samples[l.Hash()] = append(m.samples[l.Hash()], sample{at, v})
}

// Querier is for the engine, which takes from each series what lies in its range.
func (m *memory) Querier(int64, int64) (storage.Querier, error) { return m, nil }

func (m *memory) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	found := &seriesSet{SeriesSet: storage.EmptySeriesSet()}
	for hash, l := range m.names {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(l.Get(m.Name)) }) {
			found.list = append(found.list, storage.NewListSeries(l, m.samples[hash]))
		}
	}
	slices.SortFunc(found.list, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return found
}

type seriesSet struct {
	storage.SeriesSet // an empty one, for what follows
	list              []storage.Series
	now               storage.Series
}

func (s *seriesSet) Next() bool {
	if len(s.list) == 0 {
		return false
	}
	s.now, s.list = s.list[0], s.list[1:]
	return true
}

func (s *seriesSet) At() storage.Series { return s.now }

// newEngine is Prometheus's, as it is set by default.
func newEngine(t *testing.T) *promql.Engine {
	e := promql.NewEngine(promql.EngineOpts{Logger: slog.New(slog.DiscardHandler), MaxSamples: 1e6, Timeout: time.Minute,
		LookbackDelta: 5 * time.Minute, Parser: syntax})
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// instant evaluates an expression at a moment.
func instant(t *testing.T, e *promql.Engine, m *memory, expr string, at time.Time) promql.Vector {
	q, err := e.NewInstantQuery(context.Background(), m, nil, expr, at)
	require.NoError(t, err, expr)
	defer q.Close()
	result := q.Exec(context.Background())
	require.NoError(t, result.Err, expr)
	require.Empty(t, result.Warnings, expr)
	v, err := result.Vector()
	require.NoError(t, err, expr)
	return slices.Clone(v)
}
