package main

import "context"

// fleet starts a worker for each job. The contenders of a mixed fleet have two sides, and the jobs
// are theirs in turn.
func (b *bench) fleet(ctx context.Context, c contender, jobs []job) (team, error) {
	commands := make([][]string, len(jobs))
	for i := range jobs {
		commands[i] = b.command(c)
		if c.kind == aFleet {
			side, _ := contenderNamed(c.sides[i%2]) // a test looks that there is such a one
			jobs[i].Contender, commands[i] = side.name, b.command(side)
		}
	}
	return assembleEach(ctx, commands, jobs)
}

// firstSide turns the metrics of a fleet into those of its first side, beside what all have
// together. m is of all.
func firstSide(m map[string]float64, results []*result, took float64, clients int) error {
	var first []*result
	for i := 0; i < len(results); i += 2 {
		first = append(first, results[i])
	}
	theirs, err := summarise(first, took, clients)
	if err != nil {
		return err
	}
	if m[metricRate] > 0 {
		m[metricFirstShare] = theirs[metricRate] / m[metricRate]
	}
	m[metricAllRate] = m[metricRate]
	for _, name := range []string{metricRate, metricWaitMean, metricWaitP50, metricWaitP99, metricLongest} {
		m[name] = theirs[name]
	}
	return nil
}
