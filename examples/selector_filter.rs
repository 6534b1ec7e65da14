//! A browser matches style rules such as `nav#main .item a` against every element of a page. Most rules fail, and
//! walking up the ancestors to find out is slow. So a browser keeps one small filter of the names of all ancestors of
//! the current element, and rejects a rule at once if it needs a name that the filter does not contain. (Chromium does
//! this in `selector_filter.h`.)
//!
//! One filter holds names of four categories, and must distinguish the tag `menu`, the id `menu`, the class `menu` and
//! the attribute `menu`. Each category is a [`Domain`], so equal names have unrelated hashes. The walk adds elements as
//! it descends and removes them as it returns, so this is a counting filter.
//!
//! ```sh
//! cargo run --release --example selector_filter
//! ```

use std::error::Error;

use sstfilter::{CountingBloom, Domain, DynamicFilter, FilterError, KeyHash, KeyHasher};

fn main() -> Result<(), Box<dyn Error>> {
    let page = Page::example();
    let rules = Rule::examples();
    let mut walk = Walk { ancestors: Ancestors::new()?, path: Vec::new(), outcome: Outcome::default() };
    walk.visit(&page.root, &rules)?;

    let Outcome { tried, rejected, walked, matched } = walk.outcome;
    println!(
        "{} elements, {} rules: {tried} pairs of an element and a rule that ends with it",
        page.elements,
        rules.len()
    );
    println!("{rejected} rejected by the filter, {walked} looked at closely, {matched} of these matched");
    let filter = &walk.ancestors.filter;
    println!("a filter of {} counters, empty again: {} names in it", filter.counters(), filter.keys());
    assert!(rejected > tried / 2, "the filter has little to do here");
    Ok(())
}

/// The names of the ancestors of one element.
struct Ancestors {
    filter: CountingBloom,
    hasher: KeyHasher,
    categories: Categories,
}

struct Categories {
    tag: Domain,
    id: Domain,
    class: Domain,
    attribute: Domain,
}

impl Ancestors {
    fn new() -> Result<Self, FilterError> {
        let hasher = KeyHasher::default();
        // 2 KiB of 4-bit counters. A page 30 elements deep fills only a small part.
        let filter = CountingBloom::with_shape(hasher.identity(), 4_096, 2)?;
        let [tag, id, class, attribute] = ["tag", "id", "class", "attribute"].map(Domain::new);
        Ok(Self { filter, hasher, categories: Categories { tag, id, class, attribute } })
    }

    fn hashes(&self, names: &Names) -> Vec<KeyHash> {
        let Categories { tag, id, class, attribute } = self.categories;
        let hash = |name: &str, category| self.hasher.hash(name.as_bytes()).in_domain(category);
        let tag = names.tag.iter().map(|name| hash(name, tag));
        let id = names.id.iter().map(|name| hash(name, id));
        let classes = names.classes.iter().map(|name| hash(name, class));
        let attributes = names.attributes.iter().map(|name| hash(name, attribute));
        tag.chain(id).chain(classes).chain(attributes).collect()
    }

    fn enter(&mut self, element: &Names) {
        self.filter.insert_all(&self.hashes(element));
    }

    fn leave(&mut self, element: &Names) -> Result<(), FilterError> {
        self.hashes(element).into_iter().try_for_each(|hash| self.filter.remove(hash))
    }

    /// Whether the ancestors may have all these names.
    fn may_have(&self, needed: &[Names]) -> bool {
        needed.iter().flat_map(|names| self.hashes(names)).all(|hash| self.filter.contains(hash))
    }
}

/// The names of an element, or the names that a part of a rule needs.
#[derive(Clone, Debug, Default)]
struct Names {
    tag: Option<String>,
    id: Option<String>,
    classes: Vec<String>,
    attributes: Vec<String>,
}

impl Names {
    /// Parses text such as `tag#id.class[attribute]`.
    fn parse(text: &str) -> Self {
        let mut names = Self::default();
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest[1..].find(['#', '.', '[']).map_or(rest.len(), |end| end + 1);
            let (name, after) = rest.split_at(end);
            match name.split_at(1) {
                ("#", id) => names.id = Some(id.to_owned()),
                (".", class) => names.classes.push(class.to_owned()),
                ("[", attribute) => names.attributes.push(attribute.trim_end_matches(']').to_owned()),
                _ => names.tag = Some(name.to_owned()),
            }
            rest = after;
        }
        names
    }

    fn has_all_of(&self, needed: &Self) -> bool {
        let has = |own: &Option<String>, needed: &Option<String>| needed.is_none() || own == needed;
        has(&self.tag, &needed.tag)
            && has(&self.id, &needed.id)
            && needed.classes.iter().all(|class| self.classes.contains(class))
            && needed.attributes.iter().all(|attribute| self.attributes.contains(attribute))
    }
}

/// `a b c`: an element `c` somewhere below a `b`, which is somewhere below an `a`.
struct Rule {
    ancestors: Vec<Names>,
    subject: Names,
}

impl Rule {
    fn parse(text: &str) -> Option<Self> {
        let mut parts: Vec<Names> = text.split(' ').map(Names::parse).collect();
        let subject = parts.pop()?;
        Some(Self { ancestors: parts, subject })
    }

    fn examples() -> Vec<Self> {
        let places =
            ["nav", "#menu", ".menu", "[menu]", "main .card", "footer", "table.wide tr", "article[draft]", "#news li"];
        let subjects = ["a", "p", ".item", "span.price", "img"];
        let texts = places.iter().flat_map(|place| subjects.map(|subject| format!("{place} {subject}")));
        texts.filter_map(|text| Self::parse(&text)).collect()
    }

    /// The exact answer, which needs a walk from the parent up to the root.
    fn matches(&self, path: &[&Names]) -> bool {
        let mut parents = path.iter().rev();
        self.ancestors.iter().rev().all(|needed| parents.any(|parent| parent.has_all_of(needed)))
    }
}

struct Element {
    names: Names,
    children: Vec<Element>,
}

struct Page {
    root: Element,
    elements: usize,
}

impl Page {
    /// A shop: a menu, and cards within sections within sections.
    fn example() -> Self {
        let item =
            |number: usize| Element::new(&format!("li.item[data-{}]", number % 7), vec![Element::new("a", vec![])]);
        let menu = Element::new("nav#menu", (0..12).map(item).collect());
        let parts = || ["p", "img", "span.price", "a.item"].map(|names| Element::new(names, vec![])).into();
        let card = |number: usize| Element::new(&format!("div.card.card-{}", number % 40), parts());
        let section = |number: usize| {
            let cards = (0..25).map(|at| card(number * 25 + at)).collect();
            (0..8).fold(Element::new("section", cards), |inner, _| Element::new("div.box", vec![inner]))
        };
        let shop = Element::new("main", (0..40).map(section).collect());
        let root = Element::new("body", vec![menu, shop, Element::new("footer", vec![Element::new("p", vec![])])]);
        Self { elements: root.count(), root }
    }
}

impl Element {
    fn new(names: &str, children: Vec<Self>) -> Self {
        Self { names: Names::parse(names), children }
    }

    fn count(&self) -> usize {
        1 + self.children.iter().map(Self::count).sum::<usize>()
    }
}

#[derive(Default)]
struct Outcome {
    tried: u64,
    rejected: u64,
    walked: u64,
    matched: u64,
}

struct Walk<'a> {
    ancestors: Ancestors,
    path: Vec<&'a Names>,
    outcome: Outcome,
}

impl<'a> Walk<'a> {
    fn visit(&mut self, element: &'a Element, rules: &[Rule]) -> Result<(), FilterError> {
        for rule in rules.iter().filter(|rule| element.names.has_all_of(&rule.subject)) {
            self.try_rule(rule);
        }
        self.ancestors.enter(&element.names);
        self.path.push(&element.names);
        element.children.iter().try_for_each(|child| self.visit(child, rules))?;
        self.path.pop();
        self.ancestors.leave(&element.names)
    }

    fn try_rule(&mut self, rule: &Rule) {
        let outcome = &mut self.outcome;
        outcome.tried += 1;
        let does_match = rule.matches(&self.path);
        if self.ancestors.may_have(&rule.ancestors) {
            outcome.walked += 1;
            outcome.matched += u64::from(does_match);
        } else {
            outcome.rejected += 1;
            assert!(!does_match, "a filter never rejects what is there");
        }
    }
}
