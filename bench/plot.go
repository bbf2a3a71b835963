package main

import (
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// plots draws the first metric of every scenario: a bar for the median, a line from the least to
// the most of the rounds.
func (r *report) plots(dir string) error {
	for _, s := range scenarios {
		b := bars{metric: metricNamed(s.shows[0])}
		for _, c := range contenders {
			if all := values(r.of(s.name, c.name), b.metric.name); len(all) > 0 {
				b.add(c, spreadOf(all).scaled(b.metric.scale))
			}
		}
		if len(b.names) == 0 {
			continue
		}
		if err := b.draw(s.name+": "+s.about, filepath.Join(dir, s.name+".svg")); err != nil {
			return err
		}
	}
	return nil
}

// bars is one plot.
type bars struct {
	metric metric
	names  []string
	ours   plotter.Values // 0 where a bar is not ours, so that the two kinds have two colours
	theirs plotter.Values
	points plotter.XYs
	errors plotter.YErrors
}

func (b *bars) add(c contender, s spread) {
	mine, other := s.median, 0.0
	if c.group != own {
		mine, other = other, mine
	}
	b.points = append(b.points, plotter.XY{X: float64(len(b.names)), Y: s.median})
	b.errors = append(b.errors, struct{ Low, High float64 }{s.median - s.min, s.max - s.median})
	b.names = append(b.names, c.name)
	b.ours, b.theirs = append(b.ours, mine), append(b.theirs, other)
}

func (b *bars) draw(title, path string) error {
	p := plot.New()
	p.Title.Text, p.Y.Label.Text, p.Y.Min = title, b.metric.title, 0
	for i, v := range []plotter.Values{b.ours, b.theirs} {
		chart, err := plotter.NewBarChart(v, vg.Points(28))
		if err != nil {
			return err
		}
		chart.Color, chart.LineStyle.Width = plotutil.Color(2-i), 0
		p.Add(chart)
	}
	lines, err := plotter.NewYErrorBars(struct {
		plotter.XYs
		plotter.YErrors
	}{b.points, b.errors})
	if err != nil {
		return err
	}
	p.Add(lines)
	p.NominalX(b.names...)
	return p.Save(vg.Points(max(420, 80*float64(len(b.names)))), vg.Points(300), path)
}
