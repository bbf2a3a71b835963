package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// spread is a number over the rounds.
type spread struct{ median, min, max float64 }

// spreadOf takes at least one value.
func spreadOf(all []float64) spread {
	sorted := slices.Sorted(slices.Values(all))
	n := len(sorted)
	// gonum's quantiles of three numbers are not their median
	return spread{(sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[0], sorted[n-1]}
}

func (s spread) scaled(by float64) spread { return spread{s.median * by, s.min * by, s.max * by} }

// String is "median (min..max)", with three digits.
func (s spread) String() string {
	if s.min == s.max {
		return digits(s.median)
	}
	return fmt.Sprintf("%s (%s..%s)", digits(s.median), digits(s.min), digits(s.max))
}

// digits shows three significant digits and no exponent.
func digits(x float64) string {
	if x == 0 {
		return "0"
	}
	decimals := 2 - int(math.Floor(math.Log10(math.Abs(x))))
	if decimals >= 0 {
		return strconv.FormatFloat(x, 'f', decimals, 64)
	}
	unit := math.Pow(10, float64(-decimals))
	return strconv.FormatFloat(math.Round(x/unit)*unit, 'f', 0, 64)
}
