"""Spanish inflection: verbs, plurals, agreement, attached pronouns.

Rules give the regular forms, spelling changes included. Tables list the verbs whose stem changes
under stress and those with irregular forms.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from unicodedata import normalize

# Grammatical persons, as indices into every table: yo, tú, él or usted, nosotros, vosotros, ellos.
PERSONS = ("1s", "2s", "3s", "1p", "2p", "3p")
REFLEXIVE = ("me", "te", "se", "nos", "os", "se")

# How a stem changes where it bears the stress: the last of these vowels becomes the other.
_CHANGES = {
    "e>ie": "atender calentar cerrar comenzar defender despertar divertir empezar encender "
    "entender mentir nevar pensar perder preferir querer recomendar regar sentar sentir sugerir "
    "tener venir",
    "o>ue": "acordar acostar almorzar apostar aprobar colgar contar costar demostrar devolver "
    "doler dormir encontrar envolver llover morir mostrar mover poder probar recordar soler soñar "
    "tostar volar volver",
    "u>ue": "jugar",
    "e>i": "conseguir corregir decir despedir elegir freír medir pedir perseguir reír repetir "
    "seguir servir sonreír vestir",
    "i>í": "enfriar enviar esquiar fotografiar guiar vaciar",
    "u>ú": "actuar continuar reunir",
}
_CHANGE_OF = {verb: change for change, verbs in _CHANGES.items() for verb in verbs.split()}
_STRESSED = (0, 1, 2, 5)  # persons whose stem bears the stress in the present
_ENDINGS = {
    "present": {
        "a": ("o", "as", "a", "amos", "áis", "an"),
        "e": ("o", "es", "e", "emos", "éis", "en"),
        "i": ("o", "es", "e", "imos", "ís", "en"),
    },
    "preterite": {
        "a": ("é", "aste", "ó", "amos", "asteis", "aron"),
        "e": ("í", "iste", "ió", "imos", "isteis", "ieron"),
        "i": ("í", "iste", "ió", "imos", "isteis", "ieron"),
    },
    "imperfect": {
        "a": ("aba", "abas", "aba", "ábamos", "abais", "aban"),
        "e": ("ía", "ías", "ía", "íamos", "íais", "ían"),
        "i": ("ía", "ías", "ía", "íamos", "íais", "ían"),
    },
    "subjunctive": {
        "a": ("e", "es", "e", "emos", "éis", "en"),
        "e": ("a", "as", "a", "amos", "áis", "an"),
        "i": ("a", "as", "a", "amos", "áis", "an"),
    },
}
_STRONG_PRETERITE = ("e", "iste", "o", "imos", "isteis", "ieron")
_FUTURE = ("é", "ás", "á", "emos", "éis", "án")
_CONDITIONAL = ("ía", "ías", "ía", "íamos", "íais", "ían")

# Irregular paradigms, in the order of the persons.
_PARADIGMS = {
    ("ser", "present"): "soy eres es somos sois son",
    ("ser", "preterite"): "fui fuiste fue fuimos fuisteis fueron",
    ("ser", "imperfect"): "era eras era éramos erais eran",
    ("ser", "subjunctive"): "sea seas sea seamos seáis sean",
    ("ir", "present"): "voy vas va vamos vais van",
    ("ir", "preterite"): "fui fuiste fue fuimos fuisteis fueron",
    ("ir", "imperfect"): "iba ibas iba íbamos ibais iban",
    ("ir", "subjunctive"): "vaya vayas vaya vayamos vayáis vayan",
    ("estar", "present"): "estoy estás está estamos estáis están",
    ("estar", "subjunctive"): "esté estés esté estemos estéis estén",
    ("dar", "present"): "doy das da damos dais dan",
    ("dar", "preterite"): "di diste dio dimos disteis dieron",
    ("dar", "subjunctive"): "dé des dé demos deis den",
    ("ver", "present"): "veo ves ve vemos veis ven",
    ("ver", "preterite"): "vi viste vio vimos visteis vieron",
    ("ver", "imperfect"): "veía veías veía veíamos veíais veían",
    ("haber", "present"): "he has ha hemos habéis han",
    ("haber", "subjunctive"): "haya hayas haya hayamos hayáis hayan",
    ("saber", "subjunctive"): "sepa sepas sepa sepamos sepáis sepan",
    ("oír", "present"): "oigo oyes oye oímos oís oyen",
    ("reír", "present"): "río ríes ríe reímos reís ríen",
    ("reír", "preterite"): "reí reíste rio reímos reísteis rieron",
    ("sonreír", "preterite"): "sonreí sonreíste sonrió sonreímos sonreísteis sonrieron",
    ("sonreír", "subjunctive"): "sonría sonrías sonría sonriamos sonriáis sonrían",
    ("reír", "subjunctive"): "ría rías ría riamos riais rían",
}
_FIRST_PERSON = {
    "hacer": "hago",
    "poner": "pongo",
    "salir": "salgo",
    "tener": "tengo",
    "venir": "vengo",
    "decir": "digo",
    "traer": "traigo",
    "caer": "caigo",
    "saber": "sé",
    "valer": "valgo",
    "caber": "quepo",
}
_PRETERITE_STEMS = {
    "tener": "tuv",
    "caber": "cup",
    "estar": "estuv",
    "andar": "anduv",
    "poder": "pud",
    "poner": "pus",
    "saber": "sup",
    "haber": "hub",
    "hacer": "hic",
    "querer": "quis",
    "venir": "vin",
    "decir": "dij",
    "traer": "traj",
    "conducir": "conduj",
    "traducir": "traduj",
    "producir": "produj",
}
_FUTURE_STEMS = {
    "tener": "tendr",
    "caber": "cabr",
    "poner": "pondr",
    "salir": "saldr",
    "venir": "vendr",
    "valer": "valdr",
    "poder": "podr",
    "querer": "querr",
    "saber": "sabr",
    "haber": "habr",
    "hacer": "har",
    "decir": "dir",
}
_IMPERATIVES = {
    "decir": "di",
    "hacer": "haz",
    "ir": "ve",
    "poner": "pon",
    "salir": "sal",
    "ser": "sé",
    "tener": "ten",
    "venir": "ven",
}
_PARTICIPLES = {
    "abrir": "abierto",
    "cubrir": "cubierto",
    "decir": "dicho",
    "escribir": "escrito",
    "freír": "frito",
    "hacer": "hecho",
    "ir": "ido",
    "morir": "muerto",
    "poner": "puesto",
    "romper": "roto",
    "ver": "visto",
    "volver": "vuelto",
}
_GERUNDS = {"decir": "diciendo", "ir": "yendo", "poder": "pudiendo", "venir": "viniendo"}
# Compounds are conjugated like the verb they end in.
_COMPOUNDS = {
    "devolver": "volver",
    "envolver": "volver",
    "describir": "escribir",
    "descubrir": "cubrir",
    "mantener": "tener",
    "obtener": "tener",
    "proponer": "poner",
    "suponer": "poner",
    "sonreír": "reír",
    "deshacer": "hacer",
    "freír": "reír",
}


@dataclass(frozen=True)
class Verb:
    """A Spanish verb.

    Attributes:
        infinitive: without pronoun.
        reflexive: whether it takes the reflexive pronoun in all forms.
    """

    infinitive: str
    reflexive: bool = False

    @classmethod
    def named(cls, name: str) -> Verb:
        """Return the verb of a dictionary form: ``comer``, ``levantarse``, ``irse``.

        Raises:
            ValueError: the name is not an infinitive.
        """
        if not re.search("[aeií]r(se)?$", name):
            raise ValueError(f"{name} is not a Spanish infinitive")
        reflexive = name.endswith("se")
        return cls(name.removesuffix("se") if reflexive else name, reflexive)

    @property
    def change(self) -> str | None:
        """How its stem changes under stress, as in ``e>ie``; None: not at all."""
        base = _COMPOUNDS.get(self.infinitive, self.infinitive)
        return _CHANGE_OF.get(self.infinitive, _CHANGE_OF.get(base))

    @property
    def _theme(self) -> str:
        return {"a": "a", "e": "e", "i": "i", "í": "i"}[self.infinitive[-2]]

    @property
    def _stem(self) -> str:
        return self.infinitive[:-2]

    def _table(self, table: dict[str, str]) -> str | None:
        """Look the verb up, or the one that it is a compound of."""
        if self.infinitive in table:
            return table[self.infinitive]
        base = _COMPOUNDS.get(self.infinitive)
        if base is None or base not in table:
            return None
        return self.infinitive.removesuffix(base) + table[base]

    def _paradigm(self, tense: str) -> list[str] | None:
        forms = _PARADIGMS.get((self.infinitive, tense))
        if forms is not None:
            return forms.split()
        base = _COMPOUNDS.get(self.infinitive, "")
        forms = _PARADIGMS.get((base, tense))
        prefix = self.infinitive.removesuffix(base)
        return None if forms is None else [prefix + form for form in forms.split()]

    def _stressed_stem(self) -> str:
        if self.change is None:
            return self._stem
        before, after = self.change.split(">")
        head, _, tail = self._stem.rpartition(before)
        return head + after + tail

    def _weak_stem(self) -> str:
        """Return the stem of durmió, pidió, durmamos: -ir verbs raise their vowel."""
        if self._theme != "i" or self.change not in ("e>ie", "o>ue", "e>i"):
            return self._stem
        before = self.change[0]
        head, _, tail = self._stem.rpartition(before)
        return head + {"e": "i", "o": "u"}[before] + tail

    def conjugate(self, tense: str, person: int) -> str:
        """Return a simple form, without its reflexive pronoun.

        Args:
            tense: present, preterite, imperfect, future, conditional, subjunctive (present) or
                past_subjunctive.
            person: index into `PERSONS`.
        """
        if tense == "future":
            return self._future_stem() + _FUTURE[person]
        if tense == "conditional":
            return self._future_stem() + _CONDITIONAL[person]
        if tense == "past_subjunctive":
            stem = self.conjugate("preterite", 5).removesuffix("ron")
            if person == 3:
                stem = stem[:-1] + {"a": "á", "e": "é"}[stem[-1]]
            return stem + ("ra", "ras", "ra", "ramos", "rais", "ran")[person]
        paradigm = self._paradigm(tense)
        if paradigm is not None:
            return paradigm[person]
        if tense == "present":
            return self._present(person)
        if tense == "preterite":
            return self._preterite(person)
        if tense == "subjunctive":
            return self._subjunctive(person)
        return self._stem + _ENDINGS[tense][self._theme][person]

    def _future_stem(self) -> str:
        return self._table(_FUTURE_STEMS) or _plain(self.infinitive)

    def _present(self, person: int) -> str:
        if person == 0:
            first = self._table(_FIRST_PERSON)
            if first is not None:
                return first
        ending = _ENDINGS["present"][self._theme][person]
        if person not in _STRESSED:
            return self._joined(self._stem, ending)
        stem = self._stressed_stem()
        if self._theme == "i" and re.search("[^gq]u$", stem):  # construir: construyo
            stem += "y"
        return self._joined(stem, ending)

    def _preterite(self, person: int) -> str:
        strong = self._table(_PRETERITE_STEMS)
        if strong is not None:
            ending = _STRONG_PRETERITE[person]
            if strong.endswith("j") and person == 5:
                ending = "eron"
            if strong.endswith("hic") and person == 2:
                strong = strong[:-1] + "z"
            return strong + ending
        stem = self._weak_stem() if person in (2, 5) else self._stem
        ending = _ENDINGS["preterite"][self._theme][person]
        if self._theme != "a" and _ends_in_vowel(stem):
            if person in (2, 5):  # leyó, leyeron, construyó
                ending = "y" + ending[1:]
            elif ending[0] == "i" and stem[-1] != "u":  # leíste, but construiste
                ending = "í" + ending[1:]
        return self._joined(stem, ending)

    def _subjunctive(self, person: int) -> str:
        ending = _ENDINGS["subjunctive"][self._theme][person]
        first = self.conjugate("present", 0)
        irregular = self._table(_FIRST_PERSON) or self._paradigm("present")
        if irregular:  # tenga, vea, oiga
            return first[:-1] + ending
        stem = first[:-1]
        if person not in _STRESSED and self.change is not None:
            stem = self._weak_stem()
        elif self._theme == "a":
            stem = self._stressed_stem()
        else:
            return stem + ending  # the first person has the spelling before a and o already
        return self._joined(stem, ending)

    def _joined(self, stem: str, ending: str) -> str:
        """Join stem and ending so that the spelling keeps the sound."""
        soft = ending[0] in "eéií"
        if self._theme == "a" and soft:
            for hard, spelled in (("gu", "gü"), ("c", "qu"), ("g", "gu"), ("z", "c")):
                if stem.endswith(hard):
                    return stem.removesuffix(hard) + spelled + ending
        if self._theme != "a" and not soft:
            if re.search("[aeiou]c$", stem):  # conozco
                return stem[:-1] + "zc" + ending
            for before, spelled in (("gu", "g"), ("qu", "c"), ("c", "z"), ("g", "j")):
                if stem.endswith(before):
                    return stem.removesuffix(before) + spelled + ending
        return stem + ending

    @property
    def participle(self) -> str:
        """Comido, hecho."""
        irregular = self._table(_PARTICIPLES)
        if irregular is not None:
            return irregular
        if self._theme == "a":
            return self._stem + "ado"
        return self._stem + ("ído" if self._stem[-1] in "aeo" else "ido")

    @property
    def gerund(self) -> str:
        """Comiendo, diciendo, leyendo."""
        irregular = self._table(_GERUNDS)
        if irregular is not None:
            return irregular
        if self._theme == "a":
            return self._stem + "ando"
        stem = self._weak_stem()
        if stem.endswith("i"):  # riendo
            return stem + "endo"
        return stem + ("yendo" if _ends_in_vowel(stem) else "iendo")

    def imperative(self, person: int) -> str:
        """Return the affirmative command to ``person`` (not the first singular), no pronoun."""
        if person == 1:
            irregular = self._table(_IMPERATIVES)
            if irregular is None:
                return self.conjugate("present", 2)
            if self.infinitive in _COMPOUNDS and irregular[-1] == "n":  # mantén, propón
                return irregular[:-2] + _ACCENTS[irregular[-2]] + "n"
            return irregular
        if person == 4:
            return self.infinitive[:-1] + "d"
        return self.conjugate("subjunctive", person)


def _ends_in_vowel(stem: str) -> bool:
    """Whether a stem ends in a sounded vowel: le-er, constru-ir; not segu-ir."""
    return stem[-1] in "aeou" and not re.search("[gq]u$", stem)


# -- nouns and adjectives ------------------------------------------------------------------------


def plural(word: str) -> str:
    """Return the regular plural of a noun or an adjective."""
    if word[-1] in "aeiouáéó":
        return word + "s"
    if word[-1] == "z":
        return word[:-1] + "ces"
    if re.search("[aeo][íú][ns]$", word):  # the accent parts two vowels: país
        return word + "es"
    if re.search("[áéíóú][ns]$", word):  # the accent disappears: canción, inglés
        return word[:-2] + _plain(word[-2]) + word[-1] + "es"
    if word[-1] in "sx" and len(re.findall("[aeiouáéíóú]+", word)) > 1:
        return word  # unstressed: lunes
    return word + "es"


def before_noun(adjective: str) -> str:
    """Return the short form that some adjectives have before a masculine singular noun."""
    return {"bueno": "buen", "malo": "mal", "grande": "gran"}.get(adjective, adjective)


def feminine(adjective: str) -> str:
    """Return the regular feminine of an adjective."""
    if adjective.endswith("o"):
        return adjective[:-1] + "a"
    if adjective.endswith(("dor", "tor", "ñol")):
        return adjective + "a"
    if adjective.endswith(("és", "ón", "án")):
        return adjective[:-2] + _plain(adjective[-2]) + adjective[-1] + "a"
    return adjective


# -- pronouns ------------------------------------------------------------------------------------


def attach(form: str, *pronouns: str) -> str:
    """Attach object pronouns to an infinitive, a gerund or a command: dame, dámelo, comprándolo.

    An accent is written where the stress would otherwise move.
    """
    if not pronouns:
        return form
    stress = _stress(form)
    if pronouns[:1] == ("os",) and form.endswith("d") and form != "id":
        form = form[:-1]  # levantaos
    elif pronouns[:1] == ("nos",) and form.endswith("mos"):
        form = form[:-1]  # vámonos
    word = form + "".join(pronouns)
    plain = _without_accent(word, stress)
    if _stress(plain) == stress:
        return plain
    return word[:stress] + _ACCENTS.get(word[stress], word[stress]) + word[stress + 1 :]


_ACCENTS = dict(zip("aeiou", "áéíóú", strict=True))


def _plain(text: str) -> str:
    """Remove acute accents, keeping ñ and ü."""
    return normalize("NFC", re.sub("\u0301", "", normalize("NFD", text)))


def _without_accent(word: str, index: int) -> str:
    return word[:index] + _plain(word[index]) + word[index + 1 :]


def _nuclei(word: str) -> list[int]:
    """Return the index of the main vowel of every syllable."""
    nuclei = []
    for run in re.finditer("[aeiouáéíóúü]+", re.sub("(?<=[gq])u(?=[eiéí])", "-", word)):
        text, start = run.group(), run.start()
        index = 0
        while index < len(text):
            # i and u without an accent join the adjacent vowel.
            end = index + 1
            main = index
            while end < len(text):
                left, right = text[end - 1], text[end]
                if left in "iuü" and left == text[main]:
                    main = end
                elif right not in "iuü":
                    break
                end += 1
            nuclei.append(start + main)
            index = end
    return nuclei


def _stress(word: str) -> int:
    """Return the index of the stressed vowel."""
    for index, letter in enumerate(word):
        if letter in "áéíóú":
            return index
    nuclei = _nuclei(word)
    if len(nuclei) > 1 and word[-1] in "aeiouns":
        return nuclei[-2]
    return nuclei[-1]
