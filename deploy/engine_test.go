package deploy

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/stretchr/testify/require"
)

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
	t.Helper()
	e := promql.NewEngine(promql.EngineOpts{Logger: slog.New(slog.DiscardHandler), MaxSamples: 1e6, Timeout: time.Minute,
		LookbackDelta: 5 * time.Minute, Parser: syntax})
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// instant evaluates an expression at a moment.
func instant(t *testing.T, e *promql.Engine, m *memory, expr string, at time.Time) promql.Vector {
	t.Helper()
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
