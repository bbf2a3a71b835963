package main

import (
	"github.com/HdrHistogram/hdrhistogram-go"
)

// tally is what one goroutine counts; nobody else touches it while it runs.
type tally struct {
	win window
	result
	aside bool  // a reader's, beside writers: how long it waits is not asked
	count int64 // grants within the window
	waits *hdrhistogram.Histogram
	gaps  *hdrhistogram.Histogram
}

// newHistogram holds 1 ns to 100 s with three digits.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, 100e9, 3) }

func newTally(win window) *tally {
	return &tally{win: win, waits: newHistogram(), gaps: newHistogram()}
}

func (t *tally) fail(err error) {
	if t.Errors == 0 {
		t.Error = err.Error()
	}
	t.Errors++
}

// grant counts one that came at the moment granted. A gap counts if it began within the window too,
// so that one holder's exit before it is not measured as a gap.
func (t *tally) grant(me participant, began, granted int64, before handover) {
	t.Entries++
	if granted < t.win.From || granted >= t.win.To {
		return
	}
	t.count++
	wait := granted - began
	t.WaitSum += wait
	t.Longest = max(t.Longest, wait)
	record(t.waits, wait)
	if before.at < t.win.From {
		return
	}
	gap := granted - before.at
	t.Handover++
	t.GapSum += gap
	record(t.gaps, gap)
	if before.from != me {
		t.Moved++
	}
}

// read counts what a reader did beside writers, if some of it was within the window.
func (t *tally) read(granted, released int64) {
	t.Entries++
	if released < t.win.From || granted >= t.win.To {
		return
	}
	t.Reads++
	t.LongestRead = max(t.LongestRead, released-granted)
}

// record takes what is out of the histogram's bounds for the nearest that is not.
func record(h *hdrhistogram.Histogram, ns int64) {
	_ = h.RecordValue(min(max(ns, 1), h.HighestTrackableValue())) // the only error is to be out of bounds
}

// merge is what the goroutines of a worker counted together.
func merge(tallies []*tally) (*result, error) {
	var r result
	waits, gaps := newHistogram(), newHistogram()
	for _, t := range tallies {
		if !t.aside {
			r.Grants = append(r.Grants, t.count)
			r.Longest = max(r.Longest, t.Longest)
		}
		if r.Errors == 0 {
			r.Error = t.Error
		}
		r.add(&t.result)
		waits.Merge(t.waits)
		gaps.Merge(t.gaps)
	}
	var err error
	if r.Waits, err = encode(waits); err != nil {
		return nil, err
	}
	r.Gaps, err = encode(gaps)
	return &r, err
}

// add adds what is a sum, and keeps the longest read.
func (r *result) add(other *result) {
	r.WaitSum += other.WaitSum
	r.GapSum += other.GapSum
	r.Handover += other.Handover
	r.Moved += other.Moved
	r.Reads += other.Reads
	r.LongestRead = max(r.LongestRead, other.LongestRead)
	r.Entries += other.Entries
	r.Errors += other.Errors
}

func encode(h *hdrhistogram.Histogram) (string, error) {
	b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	return string(b), err
}

// decode adds a histogram that a worker wrote to h.
func decode(h *hdrhistogram.Histogram, text string) error {
	other, err := hdrhistogram.Decode([]byte(text))
	if err != nil {
		return err
	}
	h.Merge(other)
	return nil
}
