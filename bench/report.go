package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// report is what a run found; it is also what results.json holds.
type report struct {
	Machine machine  `json:"machine"`
	Config  config   `json:"config"`
	Absent  []string `json:"absent"`           // contenders left out, and why
	Broken  string   `json:"broken,omitempty"` // that the run ended early, and why
	Samples []sample `json:"samples"`
}

// code is the exit code of the program.
func (r *report) code() int {
	if slices.ContainsFunc(r.Samples, func(s sample) bool { return s.Group == own && s.bad() }) {
		return 1
	}
	return 0
}

// write writes all files, and the tables to out too.
func (r *report) write(c config, out io.Writer) error {
	fmt.Fprintln(out, r.text())
	return errors.Join(
		os.WriteFile(filepath.Join(c.Out, "table.md"), []byte(r.markdown()), 0o644),
		r.writeJSON(filepath.Join(c.Out, "results.json")),
		r.writeCSV(filepath.Join(c.Out, "results.csv")),
		r.plots(c.Out),
	)
}

func (r *report) writeJSON(path string) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// writeCSV writes a line per measurement and a column per metric; what was not measured is empty.
func (r *report) writeCSV(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := csv.NewWriter(f)
	head := []string{"scenario", "contender", "group", "round"}
	for _, m := range metrics {
		head = append(head, m.name)
	}
	_ = w.Write(append(head, "overlaps", "disorder", "lost", "errors", "error")) // csv keeps the error for Error
	for _, s := range r.Samples {
		line := []string{s.Scenario, s.Contender, string(s.Group), strconv.Itoa(s.Round)}
		for _, m := range metrics {
			cell := ""
			if v, ok := s.Metrics[m.name]; ok {
				cell = strconv.FormatFloat(v, 'g', 8, 64)
			}
			line = append(line, cell)
		}
		for _, n := range []int64{s.Safety.Overlaps, s.Safety.Disorder, s.Lost, s.Errors} {
			line = append(line, strconv.FormatInt(n, 10))
		}
		_ = w.Write(append(line, s.Error))
	}
	w.Flush()
	return errors.Join(w.Error(), f.Close())
}

// of picks the samples of a scenario, and of one contender unless that is empty.
func (r *report) of(scenario, contender string) []sample {
	var picked []sample
	for _, s := range r.Samples {
		if s.Scenario == scenario && (contender == "" || s.Contender == contender) {
			picked = append(picked, s)
		}
	}
	return picked
}

// values are one metric of samples; those without it are left out.
func values(samples []sample, metric string) []float64 {
	var all []float64
	for _, s := range samples {
		if v, ok := s.Metrics[metric]; ok {
			all = append(all, v)
		}
	}
	return all
}
