package openai

// What is decided where something ends, since members may stand in any order: the type of a part behind its text, the
// role of a message behind its content, the messages before the tools.

// addRaw takes a whole member as raw JSON.
func (p *prompt) addRaw(at node, start, end int64) {
	p.add(segment{Segment: Segment{rawKind(at), Span{start, end}}, media: at == featuresNode})
}

// closeList ends an array of texts or token ids. Texts and objects may stand side by side; token ids, and lists of them,
// only among themselves. Anything else is kept as it is, for the engine to judge.
func (p *prompt) closeList(end int64) {
	l, s := &p.list, &p.slots[p.slot-firstSlot]
	kinds := 0
	for _, n := range [...]int{l.strings + l.objects, l.numbers, l.lists} {
		if n > 0 {
			kinds++
		}
	}
	switch {
	case l.other || kinds > 1:
		p.arena = p.arena[:s.from]
		p.addKind(SegmentPart, p.start, end)
	case l.numbers > 0:
		p.addKind(SegmentTokens, p.start, end)
		s.tokens = int64(l.numbers)
	case l.lists > 0:
		s.tokens = l.tokens
		s.several = l.lists > 1
	default:
		s.several = l.strings > 1 && l.objects == 0
	}
}

// setRole notes the role of the message in hand.
func (p *prompt) setRole(span Span) {
	m := &p.message
	m.role = span != Span{}
	if m.at >= 0 && p.arena[m.at].Kind == SegmentRole {
		p.arena[m.at].Span = span
	}
}

// dropContent forgets the content of a message that has it twice.
func (p *prompt) dropContent() {
	m := &p.message
	if m.media = false; m.at >= 0 {
		p.arena = p.arena[:m.at+1]
	}
}

// closeMessage ends a message or item that is an object.
func (p *prompt) closeMessage(end int64) {
	m := &p.message
	if m.foreign {
		p.keepRaw(end)
		return
	}
	any := m.role || len(p.arena) > m.at+1
	for _, e := range m.extra {
		if e.Len() > 0 {
			any = true
			p.addKind(SegmentPart, e.Start, e.End)
		}
	}
	if !any {
		p.keepRaw(end)
		return
	}
	if len(p.arena) >= maxSegments {
		p.addKind(SegmentPart, m.start, end)
	}
}

// keepRaw takes the message or item in hand as raw JSON.
func (p *prompt) keepRaw(end int64) {
	m := &p.message
	if m.at >= 0 {
		p.arena = p.arena[:m.at]
	}
	p.add(segment{Segment: Segment{SegmentPart, Span{m.start, end}}, media: m.media || m.output})
}

// closePart ends a content part that is an object.
func (p *prompt) closePart(end int64) {
	c := &p.part
	if c.class == textClass && c.isText {
		p.addKind(p.text, c.text.Start, c.text.End)
		return
	}
	direct := c.class == mediaClass || c.class == noClass && c.media != 0
	p.message.media = p.message.media || direct || c.nested
	if direct {
		p.add(segment{Segment: Segment{SegmentMedia, Span{c.start, end}}, media: true})
		return
	}
	p.add(segment{Segment: Segment{SegmentPart, Span{c.start, end}}, media: c.nested})
}

// fill writes the prompt into sum.
func (p *prompt) fill(sum *Summary) {
	count, tokens, text := 0, int64(0), false
	used, several := 0, false
	for i := range p.slots {
		s, at := &p.slots[i], firstSlot+node(i)
		if s.to == s.from {
			continue
		}
		used++
		switch at {
		case promptNode, inputNode, textNode, inputIDsNode:
			several = s.several
		}
		for _, g := range p.arena[s.from:s.to] {
			if g.Span.Len() == 0 {
				continue
			}
			count++
			sum.Multimodal = sum.Multimodal || g.media
			if g.Kind != SegmentMedia {
				sum.PromptBytes += g.Span.Len()
			}
		}
		if s.tokens >= 0 {
			tokens += s.tokens
		} else if structured(at) {
			text = true
		}
	}
	if tokens > 0 && !text {
		sum.PromptTokens = tokens
	}
	if count == 0 {
		return
	}
	sum.Separate = several && used == 1 && len(p.arena) < maxSegments
	sum.Prompt = make([]Segment, 0, count)
	for i := range p.slots {
		for _, g := range p.arena[p.slots[i].from:p.slots[i].to] {
			if g.Span.Len() > 0 {
				sum.Prompt = append(sum.Prompt, g.Segment)
			}
		}
	}
}
