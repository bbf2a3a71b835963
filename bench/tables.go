package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
)

// text is the report for a terminal.
func (r *report) text() string {
	return r.render(func(title string) string { return title + "\n" }, func(t table.Writer) string {
		t.SetStyle(table.StyleLight)
		return t.Render()
	})
}

// markdown is the report as a section of a page.
func (r *report) markdown() string {
	return r.render(func(title string) string { return "### " + title + "\n" }, table.Writer.RenderMarkdown)
}

func (r *report) render(heading func(string) string, render func(table.Writer) string) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("%s", strings.Join(r.preface(), "\n"))
	for _, s := range scenarios {
		if t := r.table(s); t != nil {
			say("\n%s\n%s", heading(s.name+": "+s.about), render(t))
		}
	}
	if t := r.ratioTable(); t != nil {
		say("\n%s\n%s", heading("Holdfast against others, per round; above 1 Holdfast is ahead"), render(t))
	}
	if t := r.versusTable(); t != nil {
		say("\n%s\n%s", heading("One lock against another, per round; above 1 the first one is ahead"),
			render(t))
	}
	if complaints := r.complaints(); len(complaints) > 0 {
		say("\n%s\n%s", heading("What must not be, and failures"), strings.Join(complaints, "\n"))
	} else {
		say("\nNobody was inside together, and no token was out of order.")
	}
	return b.String()
}

// preface is what the numbers go with, as a list.
func (r *report) preface() []string {
	m, c := r.Machine, r.Config
	lines := []string{
		fmt.Sprintf("* Machine: %s, %d cores, %s; everything on it, over the loopback.", m.CPU, m.Cores, m.OS),
	}
	servers := []string{m.Go, m.Server}
	if m.Postgres != "" {
		servers = append(servers, "PostgreSQL "+m.Postgres)
	}
	if m.Etcd != "" {
		servers = append(servers, "etcd "+m.Etcd)
	}
	lines = append(lines, "* "+strings.Join(servers, ", ")+".")
	var versions []string
	for _, name := range slices.Sorted(maps.Keys(m.Versions)) {
		versions = append(versions, name+" "+m.Versions[name])
	}
	lines = append(lines, "* "+strings.Join(versions, ", ")+".",
		fmt.Sprintf("* %d rounds of %v each; in the tables the median of the rounds (least..most).", c.Rounds, c.Time))
	if r.Broken != "" {
		lines = append(lines, "* **The run ended early**, "+r.Broken+".")
	}
	for _, why := range r.Absent {
		lines = append(lines, "* Left out: "+why+".")
	}
	return lines
}

func (r *report) table(s scenario) table.Writer {
	t := table.NewWriter()
	head := table.Row{"lock"}
	for _, name := range s.shows {
		head = append(head, metricNamed(name).title)
	}
	t.AppendHeader(append(head, "overlaps", "disorder"))
	rows := 0
	for _, c := range contenders {
		samples := r.of(s.name, c.name)
		if len(samples) == 0 {
			continue
		}
		rows++
		row := table.Row{c.name}
		for _, name := range s.shows {
			cell := "-"
			if all := values(samples, name); len(all) > 0 {
				cell = spreadOf(all).scaled(metricNamed(name).scale).String()
			}
			row = append(row, cell)
		}
		overlaps, disorder := int64(0), int64(0)
		for _, one := range samples {
			overlaps, disorder = overlaps+one.Safety.Overlaps+max(one.Lost, 0), disorder+one.Safety.Disorder
		}
		t.AppendRow(append(row, overlaps, disorder))
	}
	if rows == 0 {
		return nil
	}
	return t
}

func (r *report) ratioTable() table.Writer {
	ratios := r.ratios(scenarios)
	if len(ratios) == 0 {
		return nil
	}
	t := table.NewWriter()
	t.AppendHeader(table.Row{"scenario", "what", "lock", "against", "ratio", "which was"})
	for _, x := range ratios {
		t.AppendRow(table.Row{x.scenario, x.metric, x.lock, x.against, x.spread.String(), strings.Join(x.best, ", ")})
	}
	return t
}

// complaints is a line for every measurement in which something was wrong.
func (r *report) complaints() []string {
	var lines []string
	for _, s := range r.Samples {
		if !s.bad() {
			continue
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("* %s, %s, round %d: %d overlaps, %d entries lost, %d tokens out of order, %d errors. %s",
			s.Scenario, s.Contender, s.Round, s.Safety.Overlaps, s.Lost, s.Safety.Disorder, s.Errors, s.Error)))
	}
	return lines
}
